"""`reput rebuild` and `reput check` as a person calls them: text, JSON, exit codes, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reput.cli.main import run
from support import golden

pytestmark = pytest.mark.golden

LOOP = ["--no-spark"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A golden store of one's own."""
    return golden.unpack("basic", tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The golden settings as a broker.conf."""
    path = tmp_path / "broker.conf"
    path.write_text(golden.CONFIG)
    return str(path)


def damaged(store: Path) -> Path:
    """The store with one byte of a body changed."""
    golden.flip(store, victim(store).body[0])
    return store


def victim(store: Path) -> golden.Span:
    """The record whose body `damaged` changes."""
    return golden.with_body(golden.records(store)[5:])


def test_text_report(store: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables and totals go to stdout, progress and assumptions to stderr."""
    assert run(["rebuild", str(store), "--config", config, *LOOP]) == 0

    out, err = capsys.readouterr()
    facts = golden.facts("basic")
    end = facts.entries("orders")
    assert f"orders\t1\t{end}\t0\t{end}" in out
    assert f"{facts.messages:,} messages" in out
    assert "messages/s" in out
    assert "assumed: messageDelayLevel" in err
    assert "decode" in err


def test_json_report(store: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout is one document, with all that the report knows."""
    assert run(["rebuild", str(store), "--config", config, "--json", "--quiet", *LOOP]) == 0

    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["ok"]
    facts = golden.facts("basic")
    wanted = (facts.messages, len(facts.queues), facts.index_files)
    assert (report["messages"], report["queues"], len(report["index_files"])) == wanted
    assert err == ""


def test_damage_exits_with_1(store: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage in the middle of the log: one line with file and offset, exit code 1; --salvage goes on."""
    place = victim(damaged(store)).offset
    assert run(["rebuild", str(store), "--config", config, "--json", "--quiet", *LOOP]) == 1

    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["kind"] == "DamagedLogError"
    assert f"00000000000000000000 at {place}" in error["message"]
    assert "--salvage" in err
    assert run(["rebuild", str(store), "--config", config, "--salvage", "--quiet", *LOOP]) == 0
    assert "gap: 00000000000000000000" in capsys.readouterr().err


def test_check_exit_codes(store: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check gives 0 for a sound store, 1 for damage, 2 where there is no store."""
    assert run(["check", str(store), "--config", config, *LOOP]) == 0
    assert "sound" in capsys.readouterr().out
    assert run(["check", str(damaged(store)), "--config", config, "--json", *LOOP]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "log-record" in {finding["rule"] for finding in findings}
    assert run(["check", str(store / "nowhere"), *LOOP]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "queues"],
        ["--split-mb", "0"],
        ["--split-mb", "nan"],
        ["--set", "mappedFileSizeConsumeQueue=lots"],
        ["--set", "unknownSetting=1"],
        ["--set", "nothing"],
        ["--config", "/nowhere/broker.conf"],
        ["--topic", "../etc"],
        ["--only", "index", "--topic", "orders"],
        ["--spark", "yes"],
        ["--master", "local[2]"],
    ],
)
def test_bad_options(store: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option is one clear message and exit code 2, before anything is touched."""
    assert run(["rebuild", str(store), *LOOP, *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert arguments[0].lstrip("-").split("-")[0] in err.lower() or arguments[1] in err
    assert "Traceback" not in err


def test_the_commitlog_folder_is_not_the_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rebuild of the commitlog folder asks for the folder above it."""
    assert run(["rebuild", str(store / "commitlog"), *LOOP]) == 2
    assert "give the one above it" in capsys.readouterr().err


def test_topics_are_named_in_any_language(store: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One topic's queues are built, whatever its name; a topic without messages is a warning."""
    assert run(["rebuild", str(store), "--config", config, "-t", "订单-topic", "-t", "nobody", *LOOP]) == 0

    out, err = capsys.readouterr()
    assert "订单-topic" in out
    assert "audit" not in out
    assert "warning: --topic nobody" in err


def test_it_runs_as_a_command(store: Path, config: str) -> None:
    """`python -m reput` works as a process; a reader that has seen enough is no error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "reput", "rebuild", str(store), "--config", config, *LOOP]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == 0, done.stderr
    assert f"{golden.facts('basic').messages:,} messages" in done.stdout


def test_a_topic_to_build_and_to_leave(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same topic in --topic and in --skip-topic is refused before any work."""
    assert run(["rebuild", str(store), "-t", "orders", "--skip-topic", "orders", *LOOP]) == 2
    assert "orders: in --topic and in --skip-topic" in capsys.readouterr().err


def test_an_unknown_topic_among_known_ones(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that nobody knows is a warning that says no more than is true."""
    assert run(["rebuild", str(store), "-t", "nope", "-t", "orders", *LOOP]) == 0
    assert (
        "warning: --topic nope: the log has no message of this topic, nor the store a queue" in capsys.readouterr().err
    )
