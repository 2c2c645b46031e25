"""The command line as a whole: exit codes, and errors in one line."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from reput.cli import main
from support import golden, stores

FULL = Path("/dev/full")


def reput(*arguments: object, stdout: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    command = [sys.executable, "-m", "reput", *map(str, arguments)]
    return subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", ["info", "dump"])
def test_full_disk_under_stdout(verb: str) -> None:
    """Output that cannot be written is one error line and exit code 2, no stack trace."""
    arguments = [verb, "log"] if verb == "dump" else [verb]
    out = os.open(FULL, os.O_WRONLY)
    try:
        done = reput(*arguments, golden.shared("basic"), stdout=out)
    finally:
        os.close(out)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: cannot write the output")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_lost_report_is_no_failed_rebuild(tmp_path: Path) -> None:
    """A rebuild whose report cannot be written says that the new indexes are live."""
    store = golden.unpack("basic", tmp_path)
    for arguments, said in (
        (["rebuild", store, "--no-spark", "--quiet"], "the new indexes are live"),
        (["rebuild", "--help"], "No space left on device"),
        (["info", tmp_path / "nowhere", "--json"], "No space left on device"),
    ):
        out = os.open(FULL, os.O_WRONLY)
        try:
            done = reput(*arguments, stdout=out)
        finally:
            os.close(out)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].endswith(said)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_stderr_stops_no_job(tmp_path: Path) -> None:
    """Progress and notes that cannot be written are left out, and the rebuild goes on."""
    store = golden.unpack("basic", tmp_path)
    command = [sys.executable, "-m", "reput", "rebuild", str(store), "--no-spark"]
    with FULL.open("w") as full:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=full, text=True)
    assert done.returncode == 0
    assert f"{golden.facts('basic').messages:,} messages" in done.stdout


@pytest.mark.parametrize("swapping", [False, True])
def test_an_interrupted_rebuild(
    swapping: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C says whether the old indexes are live, or a swap is left to finish."""
    store = golden.unpack("basic", tmp_path)

    def interrupted(*_: object, **__: object) -> None:
        if swapping:
            (store / "reput").mkdir()
            (store / "reput" / "intent").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("reput.rebuild", interrupted)
    assert main.run(["rebuild", str(store), "--quiet"]) == 130
    said = capsys.readouterr().err
    assert ("finishes that first" if swapping else "the indexes are unchanged") in said
    assert said.count("\n") == 1


def test_misuse_is_one_line() -> None:
    """A wrong option is reported in reput's own style, with the usage, and exit code 2."""
    done = reput("rebuild", "--nonsense")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_misuse_with_json_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line with --json gives a document on stdout, too."""
    assert main.run(["info", "store", "--json", "--nonsense"]) == 2
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["ok"] is False
    assert answer["error"]["message"] in err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [[], ["dump"]])
def test_without_a_command_there_is_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A call without a command lists the commands on stderr, with exit code 2."""
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: ")
    assert "Commands:" in err
    assert "error:" not in err


def test_config_that_is_none(tmp_path: Path) -> None:
    """A broker.conf with a misspelt setting, or another store's, is used with a warning that says so."""
    store = golden.unpack("basic", tmp_path)
    path = tmp_path / "broker.conf"
    path.write_text("mapedFileSizeCommitLog=1\nstorePathRootDir=/elsewhere\n")
    done = reput("info", store, "--config", path)
    assert done.returncode == 0
    assert "mappedFileSizeCommitLog is" in done.stderr
    assert "storePathRootDir=/elsewhere" in done.stderr
    path.write_bytes(b"\x7fELF\0\0")
    assert reput("info", store, "--config", path).returncode == 2


def test_damaged_log_is_no_case_for_a_rebuild(tmp_path: Path) -> None:
    """A check of a damaged log names a remedy that works, and no rebuild, which would refuse."""
    store = golden.unpack("basic", tmp_path)
    path = store / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[4000:6000] = bytes(2000)
    path.write_bytes(data)
    done = reput("check", store, "--no-spark", "--quiet")
    assert done.returncode == 1
    assert "the log itself is damaged" in done.stdout
    assert stores.leftovers(store) == []


@pytest.mark.parametrize("index", [False, True])
def test_a_log_that_is_not_there_is_no_case_for_a_rebuild(index: bool, tmp_path: Path) -> None:
    """A check of queues or IndexFiles without a log asks for the log, and for no rebuild, which would refuse."""
    store = golden.unpack("basic", tmp_path)
    shutil.rmtree(store / ("consumequeue" if index else "index"))
    for path in (store / "commitlog").iterdir():
        path.unlink()
    done = reput("check", store, "--no-spark", "--quiet")
    assert done.returncode == 1
    assert "Is its disk mounted" in done.stdout


def test_a_lost_connection_is_no_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused connection to Spark's JVM is called that, and exit code 2."""

    def refuse(_: list[str]) -> int:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(main, "_run", refuse)
    assert main.run(["info"]) == 2
    assert capsys.readouterr().err == "error: Spark's JVM has ended, or does not answer any more: Connection refused\n"


def test_the_help_names_every_exit_code() -> None:
    """`reput --help` says what 0, 1, 2 and 130 mean, and what else `diff` and `check` have 1 for."""
    reported = " ".join(reput("--help").stdout.split())
    wrong = "1 the store's bytes are wrong, differ (diff) or contradict a setting (check)"
    for words in ("0 success", wrong, "2 the store could", "130 Ctrl-C"):
        assert words in reported


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rebiuld", "store"], "Did you mean rebuild?"),
        (["dump", "quue", "store"], "Did you mean queue?"),
        (["/data/store"], "reput info /data/store"),
        (["dump", "/data/store"], "reput dump index /data/store"),
        (["frobnicate"], "reput --help"),
    ],
    ids=["verb", "verb of a group", "store", "store of a group", "nothing near"],
)
def test_a_mistyped_verb_is_answered_with_what_to_write(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown verb is exit code 2 and a line that names the nearest verb, or an example."""
    assert main.run(arguments) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: no command")
    assert said in line


def test_the_shell_completes_verbs_and_options() -> None:
    """The completion that `docs/tasks/install.md` sets up offers verbs that begin so, and the options of a verb."""

    def completed(words: str, place: int) -> list[str]:
        environment = {**os.environ, "_REPUT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        script = "import sys; from reput.cli.main import main; sys.argv = ['reput']; main()"
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("reput re", 1) == ["rebuild"]
    assert "--topic" in completed("reput get --t", 2)


def test_every_help_has_an_example() -> None:
    """The help of each verb, and of each kind of `dump`, has a line that can be typed."""
    context = click.Context(main.cli)
    dump = main.cli.get_command(context, "dump")
    assert isinstance(dump, click.Group)
    verbs = {name: main.cli.get_command(context, name) for name in main.cli.list_commands(context)}
    for name, command in {**verbs, **{f"dump {kind}": one for kind, one in dump.commands.items()}}.items():
        assert command is not None
        assert f"\nreput {name}" in inspect.cleandoc(command.help or ""), name
