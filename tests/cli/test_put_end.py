"""`reput put` that ends early, at each place where it can: the line that it names goes on with each line once."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli, run
from reput.cli.put import command as put_verb
from reput.cli.put.lines import skip_lines
from reput.cli.shared.signals import EndingSignals, StoppedError
from reput.errors import AccessError, ConfigError, FlushError, NoSpaceError, StoreLockedError, TailFullError
from reput.files import locks
from reput.formats import paths
from reput.formats.own import files as own
from reput.store import putting
from support import disks
from support.checked import assert_sound
from support.disks import spoiled_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 3000
TAIL = "tailMaxEntries=1500"
SETTINGS = ("--create", "--set", "mappedFileSizeCommitLog=65536")
LARGE = ("--set", "mappedFileSizeCommitLog=262144")
"""Files that hold a batch whole: where none does, its lines are put one by one."""
LINES = "".join(f"{number}\n" for number in range(COUNT))
JSON_LINES = "".join(f'\n{{"body": "{number}"}}\n' for number in range(COUNT))
"""Every second line is empty."""


def call(text: str, path: Path, *arguments: object) -> Result:
    """Call the verb in this process."""
    words = ["put", str(path), "-t", "t", *SETTINGS, *map(str, arguments)]
    return CliRunner().invoke(cli, words, input=text, standalone_mode=False)


def reported(done: Result) -> str:
    """Everything that people read about the end of a call."""
    return "\n".join([done.stderr, str(done.exception), *getattr(done.exception, "__notes__", ())])


def bodies(path: Path) -> list[int]:
    """The numbers that are stored, in order."""
    found: list[int] = []
    with reput.MessageStore.open(path, read_only=True) as store:
        # A pull ends with a file of the queue.
        while pull := store.get_message("t", 0, len(found), COUNT):
            found += [int(message.body) for message in pull]
    return found


def skip_of(text: str) -> int:
    """The number of lines that a message says to skip; all of them where it says that none is left."""
    found = re.search(r"--skip-lines (\d+)", text)
    if found is None:
        assert re.search(r"no line of stdin is taken|all [\d,]+ lines of stdin are taken", text), text
    return int(found[1]) if found else (2 * COUNT if "all " in text else 0)


@contextlib.contextmanager
def a_follower(path: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A follower that holds the indexes, and does not get on."""
    patch.setattr(putting, "TAIL_WAIT_S", 0.1)
    put_messages = reput.MessageStore.put_messages

    def put_after_a_full_tail(store: reput.MessageStore, *arguments: Any) -> Any:
        # The tail follows the log in a thread of its own, which may be late.
        store.view.catch_up()
        return put_messages(store, *arguments)

    patch.setattr(reput.MessageStore, "put_messages", put_after_a_full_tail)
    assert call("", path).return_value == 0
    with locks.follower_lock(path / "reput" / own.FOLLOWER_NAME, ""):
        yield


ENDS: dict[str, tuple[Any, tuple[str, ...], type[Exception] | None]] = {
    "full disk in the log": (lambda: spoiled_disk("reserve", errno.ENOSPC, 30), (), NoSpaceError),
    "full disk indexing at close": (lambda: spoiled_disk("open_sized", errno.ENOSPC, 1, "consume"), (), NoSpaceError),
    "full disk indexing on the way": (
        lambda: spoiled_disk("open_sized", errno.ENOSPC, 1, "consume"), ("--set", TAIL), NoSpaceError
    ),
    "full disk staging": (lambda: spoiled_disk("save_array", errno.ENOSPC), ("--set", TAIL), NoSpaceError),
    "a flush that fails": (lambda: spoiled_disk("sync_data", errno.EIO, 1), (), FlushError),
    "a sync that fails": (lambda: spoiled_disk("sync_data", errno.EIO, 2), ("--sync", *LARGE), FlushError),
    "no checkpoint at close": (lambda: spoiled_disk("write_at", errno.ENOSPC, 1, "checkpoint"), (), NoSpaceError),
    "no further log file": (lambda: spoiled_disk("open_sized", errno.EACCES, 3, "commitlog"), (), AccessError),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "as_json_lines"),
    [*((name, False) for name in ENDS), ("full disk in the log", True), ("full disk staging", True)],
)
def test_going_on_stores_each_line_once(name: str, as_json_lines: bool, tmp_path: Path) -> None:
    """Wherever a put breaks off, --skip-lines with the number that it names gives each line exactly once."""
    path, (spoil, options, kind) = tmp_path / "store", ENDS[name]
    text, words = (JSON_LINES, [*options, "--json-lines"]) if as_json_lines else (LINES, [*options])
    with spoil():
        done = call(text, path, *words)
    assert kind is not None
    assert isinstance(done.exception, kind), reported(done)
    assert done.exception.exit_code == 2
    assert "run the command again." not in reported(done)
    skip, stored = skip_of(reported(done)), bodies(path)
    assert stored == list(range(len(stored)))
    assert done.exception.details["stored"] == len(stored)
    assert len(stored) == (skip // 2 if as_json_lines else min(skip, COUNT)), reported(done)
    if skip < 2 * COUNT:
        assert done.exception.details["lines_taken"] == skip == done.exception.details["next_line"] - 1
        again = call(text, path, *words, "--skip-lines", skip)
        assert again.return_value == 0, reported(again)
    else:
        assert done.exception.details["next_line"] is None
        assert call("", path).return_value == 0
    assert bodies(path) == list(range(COUNT))
    assert_sound(path)


def test_a_truly_full_disk(tmp_path: Path) -> None:
    """On a small disk that fills up, put after put, each line is stored once when the disk has grown."""
    settings = ("mappedFileSizeConsumeQueue=20000", "maxHashSlotNum=16", "maxIndexNum=8")
    sizes = [word for setting in settings for word in ("--set", setting)]
    with disks.mounted(tmp_path / "disk", "300k") as folder:
        path, skip = folder / "store", 0
        for size in ("500k", "700k", "8m"):
            done = call(LINES * 3, path, *sizes, "--skip-lines", skip)
            assert isinstance(done.exception, NoSpaceError), reported(done)
            before, skip = skip, skip_of(reported(done))
            assert before < skip
            disks.remount(folder, f"size={size}")
        assert call(LINES * 3, path, *sizes, "--skip-lines", skip).return_value == 0
        assert bodies(path) == [*range(COUNT)] * 3
        assert_sound(path, reput.StoreConfig().updated(list(settings)))


def test_it_says_what_is_not_indexed(tmp_path: Path) -> None:
    """Messages that the indexes lack are called stored and readable, and the next put brings them in."""
    path = tmp_path / "store"
    with spoiled_disk("open_sized", errno.ENOSPC, 1, "consume"):
        done = call(LINES, path)
    assert "all 3,000 lines of stdin are taken: do not put them again" in reported(done)
    assert "are not in the indexes yet. Their messages are stored and readable" in reported(done)
    assert f"`reput follow {path} --until-caught-up` catches up, and so does the next put" in reported(done)
    assert done.exception is not None
    assert done.exception.details["behind_bytes"] > 0  # type: ignore[attr-defined]
    reput.follow(path, spark=False, until_caught_up=True).wait()
    assert_sound(path)
    assert bodies(path) == list(range(COUNT))


def test_put_info_and_get_advise_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store whose put found no room for indexes `put`, `info` and `get` advise one command, and it helps."""
    monkeypatch.setattr("reput.cli.shared.opened._SLOW_S", -1.0)
    path = tmp_path / "store"
    with spoiled_disk("open_sized", errno.ENOSPC, 1, "consume"):
        put = reported(call(LINES, path))
    run = CliRunner().invoke
    shown = run(cli, ["get", str(path), "-t", "t", "-q", "0", "-c", "1"], standalone_mode=False)
    advice = f"`reput follow {path} --until-caught-up`"
    (out_of_date,) = reput.info(path).out_of_date
    for text in (put, out_of_date, shown.stderr):
        assert advice in text
        assert "reput rebuild" not in text
    assert run(cli, ["follow", str(path), "--until-caught-up", "--no-spark"]).exit_code == 0
    assert reput.info(path).out_of_date == []
    assert_sound(path)


def test_it_says_which_lines_are_durable(tmp_path: Path) -> None:
    """After a flush that failed the lines below the last good one are called durable, and no others."""
    path = tmp_path / "store"
    with spoiled_disk("sync_data", errno.EIO, 1):
        done = call(LINES, path)
    assert isinstance(done.exception, FlushError)
    assert "lines up to 0 are durable" in reported(done)
    assert done.exception.details["durable_lines"] == 0
    with spoiled_disk("sync_data", errno.EIO, 2):
        done = call(LINES, tmp_path / "synced", "--sync", *LARGE)
    assert isinstance(done.exception, FlushError)
    assert (
        0
        < done.exception.details["durable_lines"]
        < done.exception.details["lines_taken"]
        == len(bodies(tmp_path / "synced"))
    )


def test_a_full_tail_and_a_follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a follower and a full tail, a second put from the named line on stores each line once."""
    path = tmp_path / "store"
    with a_follower(path, monkeypatch):
        done = call(LINES, path, "--set", TAIL)
        assert isinstance(done.exception, TailFullError)
    skip = skip_of(reported(done))
    assert 0 < skip < COUNT
    reput.follow(path, spark=False, until_caught_up=True).wait()
    assert call(LINES, path, "--set", TAIL, "--skip-lines", skip).return_value == 0
    assert bodies(path) == list(range(COUNT))
    assert_sound(path)


def test_a_follower_that_comes_first_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that takes the indexes between the look and the call catches up instead: the put ends with 0."""
    path, looks = tmp_path / "store", iter([False])

    def busy(*_arguments: Any, **_named: Any) -> Any:
        raise StoreLockedError("a follower is at work")

    monkeypatch.setattr(reput.MessageStore, "reput", busy)
    monkeypatch.setattr(reput.MessageStore, "is_followed", property(lambda _: next(looks, True)))
    assert call("a\n", path).return_value == 0


def test_damaged_input(tmp_path: Path) -> None:
    """A line that is no JSON ends it; skipping up to it goes on with it mended, and one more leaves it out."""
    path, text = tmp_path / "store", '\n{"body": "0"}\n{"body": \n{"body": "1"}\n'
    done = call(text, path, "--json-lines")
    assert isinstance(done.exception, ConfigError)
    assert skip_of(reported(done)) == 2
    assert reported(done).endswith("--skip-lines 2. --skip-lines 3 leaves line 3 out")
    assert done.exception.details == {
        "stored": 1, "lines_taken": 2, "next_line": 3, "durable_lines": 2, "behind_bytes": 0
    }  # fmt: skip
    assert call(text, path, "--json-lines", "--skip-lines", 3).return_value == 0
    assert bodies(path) == [0, 1]


def test_the_last_json_document(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --json the last document has the numbers; a failure that nobody reads keeps its exit code."""
    path = tmp_path / "store"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"body": "0"}\nnone\n')))
    assert run(["put", str(path), "-t", "t", "--json-lines", "--json", *SETTINGS]) == 2
    output = capfd.readouterr()
    last = json.loads(output.out.splitlines()[-1])
    assert (last["ok"], last["lines_taken"], last["next_line"], last["stored"]) == (False, 1, 2, 1)
    lines = output.err.splitlines()
    assert lines[0] == "stored 1 message"
    assert lines[1].startswith("error: line 2: not JSON")
    assert lines[2].startswith("1 line of stdin taken, line 2 comes next")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "reput", "put", str(tmp_path / "none"), "-t", "t", "--json"]
    done = subprocess.run(command, input=b"", stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 2
    assert done.stderr.decode().endswith("no line of stdin is taken\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    """A full disk at stdout ends the put, and the lines that were stored before are counted."""
    path = tmp_path / "store"
    command = [sys.executable, "-m", "reput", "put", str(path), "-t", "t", *SETTINGS]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, input=LINES.encode(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    skip = skip_of(done.stderr.decode())
    assert bodies(path) == list(range(skip))
    assert call(LINES, path, "--skip-lines", skip).return_value == 0
    assert bodies(path) == list(range(COUNT))


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("options", [(), ("--sync",)])
def test_a_signal_in_the_middle_of_a_put(
    options: tuple[str, ...], number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes when a batch is stored and not yet counted waits: the number is right all the same."""
    path, put_messages, calls = tmp_path / "store", reput.MessageStore.put_messages, 0

    def signalled(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        result = put_messages(*arguments, **named)
        if calls == 2:
            signal.raise_signal(number)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(reput.MessageStore, "put_messages", signalled)
        done = call(LINES, path, *options, *LARGE)
    assert (done.return_value, skip_of(done.stderr)) == (128 + number, 2000)
    assert f"ended by {number.name}" in done.stderr
    assert call(LINES, path, *LARGE, "--skip-lines", 2000).return_value == 0
    assert bodies(path) == list(range(COUNT))


def signalled_after(put: Any) -> Any:
    """A put that a signal follows at once."""

    def signalled(*arguments: Any, **named: Any) -> Any:
        result = put(*arguments, **named)
        signal.raise_signal(signal.SIGTERM)
        return result

    return signalled


@pytest.mark.parametrize("settings", [LARGE, ("--json", *LARGE), ()])
def test_a_signal_between_a_put_and_its_lines_drops_them(
    settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal between a put and its report takes no line from stdout: it has a line for each message stored."""
    path = tmp_path / "store"
    with monkeypatch.context() as patch:
        for name in ("put_messages", "put_message"):
            patch.setattr(reput.MessageStore, name, signalled_after(getattr(reput.MessageStore, name)))
        done = call(LINES, path, *settings)
    assert done.return_value == 128 + signal.SIGTERM
    shown = [line for line in done.stdout.splitlines() if '"ok": false' not in line]
    assert len(shown) == len(bodies(path)) == skip_of(done.stderr)
    assert f"stored {len(shown):,} message" in done.stderr
    assert_sound(path)


def test_a_flush_that_fails_drops_the_lines_of_its_put(tmp_path: Path) -> None:
    """Messages that are stored when a sync flush fails have their lines on stdout, too."""
    path = tmp_path / "store"
    with spoiled_disk("sync_data", errno.EIO, 2):
        done = call(LINES, path, "--sync", *LARGE)
    assert isinstance(done.exception, FlushError)
    assert len(done.stdout.splitlines()) == len(bodies(path)) == skip_of(reported(done)) > 0


def test_a_signal_while_indexing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal while the indexes catch up at the end leaves them incomplete; all lines are reported as taken."""
    path = tmp_path / "store"

    def signalled(*_arguments: Any, **_named: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(reput.MessageStore, "reput", signalled)
        done = call(LINES, path)
    assert done.return_value == 143
    assert "all 3,000 lines of stdin are taken: do not put them again" in done.stderr
    assert "and so does the next put" in done.stderr
    assert call("", path).return_value == 0
    assert not (path / paths.ABORT).exists()
    assert bodies(path) == list(range(COUNT))


def test_ignored_signals_stay_ignored() -> None:
    """Under nohup a hang-up ends nothing; a signal that is held comes when the work is counted."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A Spark session of an earlier test leaves a handler of its own.
    interrupt = signal.getsignal(signal.SIGINT)
    done = False
    try:
        with EndingSignals() as signals:
            signal.raise_signal(signal.SIGHUP)
            with contextlib.suppress(StoppedError), signals.held():
                signal.raise_signal(signal.SIGINT)
                done = True
                pytest.fail("the signal is lost")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done
    assert signal.getsignal(signal.SIGINT) is interrupt


# --- lines that are passed over -------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 2, 3, 100])
@pytest.mark.parametrize(("count", "rest"), [(0, b"a\n\nb\nlast"), (1, b"\nb\nlast"), (3, b"last"), (4, b"")])
def test_skipping(count: int, rest: bytes, pieces: int) -> None:
    """Lines are passed over wherever the reads of a pipe are cut; the last line needs no end."""
    data = io.BytesIO(b"a\n\nb\nlast")
    stream: Any = type("Pipe", (), {"read1": lambda _, size: data.read(min(size, pieces)), "read": None})()
    found = skip_lines(stream.read1, count)
    assert found + data.read() == rest


def test_more_than_there_are(tmp_path: Path) -> None:
    """An input with fewer lines than are to be passed over is another input: nothing is put."""
    path = tmp_path / "store"
    done = call("a\nb", path, "--skip-lines", 3)
    assert isinstance(done.exception, ConfigError)
    assert "--skip-lines 3: stdin has only 2 lines" in reported(done)
    assert "no line of stdin is taken" in reported(done)
    assert "stdin has only 1 line\n" in reported(call("a", path, "--skip-lines", 3))
    # More than a machine word was a traceback.
    assert "stdin has only 1 line\n" in reported(call("a", path, "--skip-lines", 1 << 63))
    assert call("a\nb", path, "--skip-lines", 2).return_value == 0


def test_a_stdin_that_cannot_be_read(tmp_path: Path) -> None:
    """A stdin that is only open to write, and a closed one, are named; they are no trouble of the output."""
    command = [sys.executable, "-m", "reput", "put", str(tmp_path / "store"), "-t", "t", *SETTINGS]
    with (tmp_path / "other").open("wb") as only_written:
        done = subprocess.run(command, stdin=only_written, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: stdin: cannot read lines: Bad file descriptor" in done.stderr
    closed = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert closed.returncode == 2
    assert "stdin is closed" in closed.stderr


def test_batches_are_small_enough_to_test() -> None:
    """The numbers above rest on batches of 1,000 lines."""
    assert put_verb._AT_ONCE == 1000
