"""`reput convert` and `reput diff` from the command line: text, JSON, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from reput.cli.convert import convert
from reput.cli.diff import diff
from reput.cli.info import info
from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.build.rocksdb import queues as rocksdb_queues
from support import databases, golden, stores

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.golden


def call(command: Any, *words: object) -> Result:
    """Run a verb."""
    return CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A broker.conf with the golden stores' sizes."""
    path = tmp_path / "broker.conf"
    path.write_text(golden.CONFIG)
    return path


def test_convert_and_diff(tmp_path: Path, config: Path) -> None:
    """A conversion names the settings to change; no difference is exit code 0, one is 1 with a line for each."""
    store = golden.unpack("basic", tmp_path)
    done = call(convert, store, "--to", "both", "--no-spark", "--config", config, "--json")
    assert done.return_value == 0
    report = json.loads(done.stdout)
    assert (report["ok"], report["to"], report["queues"]) == (True, "both", len(golden.facts("basic").queues))
    assert any("rocksdbCQDoubleWriteEnable=true" in note for note in report["notes"])
    same = call(diff, store, "--config", config)
    assert (same.return_value, same.stdout) == (0, "")
    other = call(diff, store, golden.shared("crash"), "--config", config, "--json")
    assert other.return_value == 1
    *found, last = [json.loads(line) for line in other.stdout.splitlines()]
    assert last["differences"] == len(found) > 0
    assert not last["ok"]
    assert {"topic", "queue_id", "what", "begin", "end", "left", "right"} <= set(found[0]["difference"])


def test_from_the_other_kind(tmp_path: Path, config: Path) -> None:
    """`--source queues` says so; where there is no other kind it says what to do."""
    store = golden.unpack("basic", tmp_path)
    words = ("--no-spark", "--config", config, "--source", "queues", "--to")
    done = call(convert, store, *words, "rocksdb", "--json")
    report = json.loads(done.stdout)
    facts = golden.facts("basic")
    assert (done.return_value, report["from"]) == (0, "queues")
    assert (report["queues"], report["queue_entries"]) == (len(facts.queues), facts.queue_entries)
    again = call(convert, store, *words, "rocksdb")
    assert isinstance(again.exception, ConfigError)
    assert "--source log" in str(again.exception)


@pytest.mark.parametrize("source", ["log", "queues"])
def test_ended_by_ctrl_c(source: str, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C leaves the old queues and nothing else; the text says that the command starts from the beginning."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store, inodes=True)
    command = (store, "--to", "rocksdb", "--source", source, "--no-spark", "--split-mb", "0.5", "--config", config)
    with monkeypatch.context() as patched:
        patched.setattr(rocksdb_queues, "plan_stretches", interrupted)
        ended = call(convert, *command)
    assert ended.return_value == 130
    assert "starts from the beginning" in ended.stderr
    assert stores.digest(store, inodes=True) == before
    assert stores.leftovers(store) == []
    done = call(convert, *command, "--json")
    assert (done.return_value, json.loads(done.stdout)["queue_entries"]) == (0, golden.facts("basic").queue_entries)


def test_what_a_killed_conversion_left(tmp_path: Path, config: Path) -> None:
    """`info` and a dry run name the folder; the next conversion removes it and says so; nothing in it goes live."""
    store, other = golden.unpack("basic", tmp_path), golden.unpack("basic", tmp_path / "other")
    left = store / paths.REPUT / own.staging_name(3)
    for name in ("consumequeue/strange/0/00000000000000000000", "consumequeue/CURRENT", "parts/0.ranges"):
        (left / name).parent.mkdir(parents=True, exist_ok=True)
        (left / name).write_bytes(b"x" * 20)
    command = (store, "--to", "both", "--no-spark", "--config", config)
    assert f"left over: {left.name}" in call(info, store, "--config", config).stdout
    assert left.name in call(convert, *command, "--dry-run").stderr
    assert left.exists()
    assert f"removed what an earlier job had left: {left.name}" in call(convert, *command).stderr
    assert stores.leftovers(store) == []
    assert not (store / paths.CONSUME_QUEUE / "strange").exists()
    assert call(convert, other, *command[1:]).return_value == 0
    assert databases.content(store) == databases.content(other)
    assert stores.indexes(store) == stores.indexes(other)
    # The store has these queues: what another killed job left is removed, and that is all.
    (left / "parts").mkdir(parents=True)
    again = call(convert, *command)
    assert again.return_value == 0
    assert left.name in again.stderr
    assert "nothing to do" in again.stderr
    assert stores.leftovers(store) == []


def test_text(config: Path) -> None:
    """Without --json each difference is a line with tabs; one kind alone is an error."""
    result = call(diff, golden.shared("double"), golden.shared("crash"), "--config", config)
    assert result.return_value == 1
    assert all(line.count("\t") == 3 for line in result.stdout.splitlines())
    assert isinstance(call(diff, golden.shared("basic")).exception, ConfigError)
    assert call(convert, golden.shared("basic"), "--to", "odd").exception is not None


def test_queues_behind_a_crash(tmp_path: Path, config: Path) -> None:
    """Queues of a crashed store whose complete part is unknown are not converted: exit code 2, and the remedy."""
    store = golden.unpack("crash", tmp_path)
    # It may say that the queues are complete up to one of the log's files.
    (store / "checkpoint").unlink()
    words = ("--no-spark", "--config", config, "--source", "queues", "--to", "rocksdb")
    error = call(convert, store, *words).exception
    assert isinstance(error, ConfigError)
    assert "--source log" in str(error)


def test_one_kind_has_nothing_beside_it(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`reput diff` of a store with one kind of queues names the store by its whole path, however it was given."""
    store = golden.unpack("basic", tmp_path)
    monkeypatch.chdir(store.parent)
    error = call(diff, store.name, "--config", config).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{store}: has file queues alone")


def test_differences_come_by_topic_and_queue(config: Path) -> None:
    """The lines of `reput diff` are sorted, wherever each side keeps its queues; a pipe gets no heading."""
    done = call(diff, golden.shared("basic"), golden.shared("crash"), "--config", config)
    queues = [line.split("\t")[0].rpartition("/") for line in done.stdout.splitlines()]
    found = [(topic, int(queue_id)) for topic, _, queue_id in queues]
    assert found == sorted(found)
    assert len({topic for topic, _ in found}) > 1


def test_who_reads_may_stop(tmp_path: Path, config: Path) -> None:
    """`reput diff | head -1` has seen that they differ: exit code 1 all the same, without a stack trace."""
    words = [golden.shared("basic"), golden.shared("crash"), "--config", config]
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "reput", "diff", *map(str, words)]
        done = subprocess.run(command, check=False, stdout=write, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_only_what_was_built_is_counted(tmp_path: Path, config: Path) -> None:
    """A conversion leaves the IndexFiles alone, and counts none."""
    done = call(convert, golden.unpack("basic", tmp_path), "--to", "both", "--no-spark", "--config", config)
    assert f"in {len(golden.facts('basic').queues)} queues\n" in done.stdout
    assert "IndexFile" not in done.stdout


def test_a_store_that_has_these_queues_is_left_alone(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--to` of the kinds that a store has says so with exit code 0, writes nothing, and starts no engine."""

    def started(*_: object) -> None:
        raise AssertionError("an engine was started")

    store = golden.unpack("double", tmp_path)
    before = stores.digest(store)
    with monkeypatch.context() as patched:
        patched.setattr("reput.api.engine_for", started)
        done = call(convert, store, "--to", "both", "--config", config)
        as_json = json.loads(call(convert, store, "--to", "both", "--config", config, "--json").stdout)
    assert (done.return_value, done.stdout) == (0, "")
    assert "already has both kinds of queues: nothing to do. `reput check` compares them with the log" in done.stderr
    assert (as_json["ok"], as_json["built"]) == (True, [])
    dry = call(convert, store, "--to", "both", "--config", config, "--dry-run")
    assert (dry.return_value, dry.stdout, dry.stderr) == (0, "", done.stderr)
    assert stores.digest(store) == before
    words = ("--no-spark", "--config", config, "--to", "rocksdb")
    assert f"{len(golden.facts('double').queues)} queues" in call(convert, store, *words).stdout
    assert "already has rocksdb queues" in call(convert, store, *words).stderr
