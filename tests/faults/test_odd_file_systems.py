"""Read-only file systems, files without rights, folders in the place of files, failing disks: words, never a trace."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.cli.main import run
from reput.errors import AccessError, DamagedStoreError, ReputError
from reput.files import fs
from reput.formats import paths
from support import disks, golden, stores
from support.users import as_another_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.golden

READING = [
    "info STORE", "check STORE --no-spark", "get STORE -t orders -q 0 -c 1", "query STORE -t orders --key k30",
    "offset STORE -t orders", "progress STORE", "dump log STORE -c 1", "dump queue STORE -t orders -q 0 -c 1",
    "dump index STORE -c 1", "diff STORE STORE", "export STORE --no-spark --folder OUT",
]  # fmt: skip
WRITING = [
    "put STORE -t orders", "rebuild STORE --no-spark", "convert STORE --no-spark --to rocksdb",
    "delete STORE -t orders", "follow STORE --no-spark --until-caught-up",
    "progress STORE -g billing -t orders -q 0 --reset-to 0",
]  # fmt: skip
SIZE = ["--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}"]


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for `put` to read."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))


def call(command: str, store: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command; its exit code, and what it says on stderr."""
    words = command.replace("STORE", str(store)).replace("OUT", str(store.parent.parent / "out")).split()
    code = run([*words, *SIZE])
    return code, capfd.readouterr().err


@pytest.mark.parametrize("name", ["basic", "rocksdb"])
def test_a_read_only_file_system(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Commands that read work on it; those that write name the path, say that it is read-only, and what to do."""
    with disks.mounted(tmp_path / "disk", "64m") as folder:
        store = golden.unpack(name, folder)
        disks.remount(folder, "ro")
        for command in READING if name == "basic" else READING[:3]:
            code, reported = call(command, store, capfd)
            assert code == 0, f"{command}: {reported}"
        for command in WRITING if name == "basic" else WRITING[:1]:
            code, reported = call(command, store, capfd)
            assert code == 2, command
            assert f"error: {store}" in reported, command
            assert "Read-only file system. This file system is mounted read-only" in reported, command
            assert "read_only=True; to write, mount it read-write" in reported, command
        with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
            assert opened.get_message("orders", 0, 0).messages
        with pytest.raises(AccessError, match="read_only=True"):
            reput.MessageStore.open(store, stores.GOLDEN)
        with pytest.raises(AccessError, match="mounted read-only"):
            reput.MessageStore.open(folder / "new", stores.GOLDEN, create=True)


def test_a_log_that_may_not_be_read(open_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the right to read a file of the log every command names it, and says whose rights are needed."""
    # Another user may have no right to read the modules of this Python.
    importlib.import_module("reput.connect.export")
    store = golden.unpack("basic", open_folder)
    file = store / paths.COMMIT_LOG / paths.offset_name(1 << 20)
    file.chmod(0)

    def opened() -> str:
        reported = []
        for read_only in (True, False):
            try:
                reput.MessageStore.open(store, stores.GOLDEN, read_only=read_only).close()
            except AccessError as error:
                reported.append(str(error))
        return "\n".join(reported)

    to_read, to_write = as_another_user(opened).splitlines()
    assert to_read.startswith(f"{file}: ")
    assert to_write.startswith(f"{store}: cannot write into the folder")
    for reported in (to_read, to_write):
        assert "Permission denied. Run as its owner, " in reported

    # The IndexFiles alone are read without the log.
    reading = [command for command in READING if "index" not in command]

    def codes() -> str:
        return str(
            [
                run([*command.replace("STORE", str(store)).replace("OUT", "/export").split(), *SIZE])
                for command in reading
            ]
        )

    assert as_another_user(codes) == str([2] * len(reading))
    reported = capfd.readouterr().err
    assert reported.count(f"error: {file}: cannot read: Permission denied. Run as its owner") == len(reading)
    assert "Traceback" not in reported


@pytest.mark.parametrize("where", ["inside", "next"])
def test_a_folder_in_the_place_of_a_log_file(where: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the middle of the log, or where the next file comes, it is named, and so is what to do with it."""
    store = golden.unpack("basic", tmp_path)
    files = len(list((store / paths.COMMIT_LOG).iterdir()))
    place = store / paths.COMMIT_LOG / paths.offset_name((1 if where == "inside" else files) * golden.LOG_FILE_SIZE)
    place.unlink(missing_ok=True)
    if where == "inside":
        place.mkdir()
        for command in ("get STORE -t orders -q 0 -c 1", "put STORE -t orders", "rebuild STORE --no-spark"):
            code, reported = call(command, store, capfd)
            assert code == DamagedStoreError.exit_code
            assert str(place) in reported
            assert "move it away" in reported
        return
    with reput.MessageStore.open(store, stores.GOLDEN) as opened:
        place.mkdir()
        with pytest.raises(ReputError, match="There is a folder where a file belongs") as raised:
            fill(opened)
    assert str(place) in str(raised.value)


def fill(store: reput.MessageStore) -> None:
    """Put more than a file of the log holds."""
    for _ in range(200):
        store.put_message(reput.Message("orders", b"x" * 10_000))


FAILING = [
    ("read_bytes", "info STORE"), ("mapped", "check STORE --no-spark"),
    ("map_file", "get STORE -t orders -q 0 -c 1"), ("list_dir", "query STORE -t orders --key k30"),
    ("sync_path", "rebuild STORE --no-spark"),
    ("write_whole", "put STORE -t orders"), ("end_of_data", "export STORE --no-spark --folder OUT"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "command"), FAILING)
def test_a_disk_that_fails(
    function: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An input/output error names the path and what it means, and ends with 2; with the disk sound all works again."""
    store = golden.unpack("basic", tmp_path)
    before = stores.queue_files(store)
    with monkeypatch.context() as patch:
        patch.setattr(fs, function, failing())
        code, reported = call(command, store, capfd)
    assert code == 2
    assert "Input/output error. The disk, or the connection to it, has failed" in reported
    assert f"{store}" in reported
    assert "Traceback" not in reported
    assert stores.queue_files(store) == before
    assert call("check STORE --no-spark", store, capfd)[0] == 0


def failing() -> Callable[..., Any]:
    """A function of the file seam that the disk fails."""

    def spoiled(path: Any, *_arguments: Any, **_named: Any) -> Any:
        with fs.errors_named(path, "read"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return spoiled
