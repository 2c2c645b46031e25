"""`reput info` as people and programs call it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli, run
from reput.errors import ConfigError
from reput.formats import paths
from support import golden
from support.records import LogBuilder

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = ("pyspark", "py4j", "numba", "llvmlite", "pyarrow", "pandas")


def call(*arguments: str | Path) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def call_json(*arguments: str | Path) -> dict[str, Any]:
    """The one JSON document that a call gives."""
    value = json.loads(call(*arguments, "--json").stdout)
    assert isinstance(value, dict)
    return value


@pytest.mark.golden
def test_text_has_the_main_things() -> None:
    """The text names offsets, topics, queues, IndexFiles and the checkpoint; stderr has nothing for a sound store."""
    facts = golden.facts("basic")
    result = call("info", golden.shared("basic"))
    assert result.return_value == 0
    assert result.stderr == ""
    for words in (
        f"0 to {facts.log_end}",
        f"{len(facts.queues)} in {len(facts.topics)} topics",
        f"orders\t1\t{facts.entries('orders')}",
        "订单-topic",
        f"{facts.index_files} IndexFiles",
        "physic_msg_timestamp",
    ):
        assert words in result.stdout


@pytest.mark.golden
def test_names_in_a_pipe_are_whole() -> None:
    """A long topic has its whole name if stdout is no terminal."""
    reported = call_json("info", golden.shared("basic"))
    (name,) = (topic["topic"] for topic in reported["topics"] if len(topic["topic"]) > 100)
    for arguments in ((), ("-t", name)):
        assert f"{name}\t" in call("info", golden.shared("basic"), *arguments).stdout


@pytest.mark.golden
def test_a_topic_shows_its_queues() -> None:
    """With -t the topic's queues are listed one by one; a topic that is not there is an error that says which are."""
    store = golden.shared("basic")
    end, files = golden.facts("basic").entries("orders"), len(list((store / "consumequeue" / "orders" / "0").iterdir()))
    assert f"orders\t0\t{end}\t0\t{end}\t{files}" in call("info", store, "-t", "orders").stdout
    reported = call_json("info", store, "-t", "payments")
    assert [queue["queue_id"] for queue in reported["topics"][0]["queues"]] == [0, 1, 2, 3]
    error = call("info", store, "-t", "order").exception
    assert isinstance(error, ConfigError)
    assert "orders" in str(error)


@pytest.mark.golden
def test_json_has_everything() -> None:
    """The JSON has every queue, every IndexFile, the sums, and whether all is well."""
    reported, facts = call_json("info", golden.shared("basic")), golden.facts("basic")
    assert reported["ok"] is True
    assert reported["queues"] == sum(len(topic["queues"]) for topic in reported["topics"]) == len(facts.queues)
    assert reported["queue_entries"] == sum(topic["entries"] for topic in reported["topics"])
    assert reported["index_items"] == sum(file["items"] for file in reported["index_files"])
    assert reported["log"]["max_offset"] == facts.log_end
    assert {"checkpoint", "abort", "broker_running", "own", "unsupported", "out_of_date", "damage"} <= reported.keys()
    assert reported["behind"] == reported["out_of_date"]  # its old name


def test_damage_gives_exit_code_1(tmp_path: Path) -> None:
    """A damaged log is reported on stderr, the rest on stdout, and the exit code is 1."""
    log = LogBuilder(1 << 16)
    log.message("orders")
    at = log.garbage(b"no record at all")
    log.message("orders")
    log.write(tmp_path)
    result = call("info", tmp_path)
    assert result.return_value == 1
    assert f"log offset {at}" in result.stderr
    assert "end damaged" in result.stdout
    assert call_json("info", tmp_path)["ok"] is False


def test_control_characters_stay_out_of_the_terminal(tmp_path: Path) -> None:
    """A topic with escape sequences in its name is shown with them spelt out."""
    log = LogBuilder(4096)
    log.message("orders")
    log.write(tmp_path)
    folder = tmp_path / paths.CONSUME_QUEUE / "\x1b[31mred" / "0"
    folder.mkdir(parents=True)
    (folder / paths.offset_name(0)).write_bytes(bytes(6000))
    result = call("info", tmp_path)
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mred" in result.stdout


def test_the_name_of_a_topic_looked_like_further_rows(tmp_path: Path) -> None:
    """Tabs and ends of lines in a name are spelt out: a table has a row for each queue, and no other."""
    log = LogBuilder(4096)
    for topic in ("orders", "a\nforged\t0\t99"):
        log.message(topic)
    log.write(tmp_path)
    reput.rebuild(tmp_path, spark=False)
    rows = [line for line in call("info", tmp_path).stdout.split("\n") if "forged" in line]
    assert rows
    assert all(row.startswith("a\\nforged\\t0\\t99\t") for row in rows)


def test_what_is_no_store_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No store: one line with a remedy on stderr, exit code 2, and with --json an error object on stdout."""
    assert run(["info", str(tmp_path), "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["kind"] == "NotAStoreError"
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


@pytest.mark.golden
def test_a_start_is_quick_and_light() -> None:
    """A real process answers well under a second of its own time, and loads neither Spark nor numba nor Arrow."""
    code = (
        f"import sys; sys.argv = ['reput', 'info', {str(golden.shared('basic'))!r}]\n"
        "from reput.cli.main import main\n"
        f"try:\n    main()\nfinally:\n    print('loaded', *[n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
    )
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE)
    # Generous, for a machine that is busy with other tests: the goal is a quarter of a second.
    assert time.perf_counter() - begin < 5
    assert done.stderr == "loaded\n"
    assert str(golden.facts("basic").log_end) in done.stdout


@pytest.mark.golden
def test_a_damaged_database_is_told_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RocksDB's report of several lines becomes one, with the remedy after it and exit code 1."""
    store = golden.unpack("rocksdb", tmp_path)
    table = min((store / "consumequeue").glob("*.sst"))
    table.write_bytes(b"x" * 100)
    assert run(["info", str(store)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert ".." not in error.replace(str(tmp_path), "")
    assert "`reput rebuild --only queue` builds it anew" in error


@pytest.mark.golden
@pytest.mark.parametrize("topic", ["orders", "typo"])
def test_a_topic_hid_the_damage_of_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str) -> None:
    """`info -t` of a topic in a database that cannot be read shows the damage and exits 1, as without -t."""
    store = golden.unpack("rocksdb", tmp_path)
    (manifest,) = (store / "consumequeue").glob("MANIFEST*")
    # Within its first record, whatever the store has.
    manifest.write_bytes(manifest.read_bytes()[:20])
    assert run(["info", str(store), "-t", topic]) == 1
    shown = capsys.readouterr()
    assert f"log         {len(list(golden.log_files(store)))} files" in shown.out
    assert f"damage: {store}/consumequeue: cannot open" in shown.err
    assert f"note: no queue that can be read is of topic {topic}" in shown.err


@pytest.mark.golden
def test_a_topic_alone_is_counted_alone() -> None:
    """With -t entries and bytes are those of the topics that are named."""
    store = golden.shared("basic")
    one, whole = call_json("info", store, "-t", "payments"), call_json("info", store)
    assert one["queue_bytes"] == sum(queue["bytes"] for queue in one["topics"][0]["queues"])
    assert 0 < one["queue_bytes"] < whole["queue_bytes"]
