"""Files in the place of folders, the reverse, and named pipes: reads go on and name them, writes refuse."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from reput.formats.own import files as own
from support import golden
from support.search import takes_long

if TYPE_CHECKING:
    from pathlib import Path

FIRST = ("consumequeue", "config")
OTHERS = (
    *("index", "timerlog", "reput", "consumequeue_rocksdb", "consumequeue_ext", "batchconsumequeue"),
    *("rocksdbstore", "kvStore", "config/consumerOffsets", "config/metadata", "config/rdb", "consumequeue/orders/0"),
)
PLACES = [*FIRST, *(pytest.param(name, marks=takes_long) for name in OTHERS)]
READS = (
    *("info", "check --no-spark", "get -t orders", "dump log", "offset -t orders -q 0", "lite"),
    *("query --physical-offset 0", "progress", "pending timers", "pending transactions", "pending pop"),
)
WRITES = (
    *("rebuild --no-spark", "convert --to rocksdb --no-spark", "follow --no-spark --until-caught-up"),
    *("put -t orders", "delete -t orders", "progress -g billing -t orders -q 0 --commit 5"),
)


FILES = ("checkpoint", "consumequeue/orders/0/00000000000000000000")
OTHER_FILES = (
    *("lock", "abort", "timerwheel", "commitlog/00000000000000000000", "commitlog/00000000000001048576"),
    *("index/20260101000000000", "timerlog/00000000000000000000", "config/topics.json", "config/timercheck"),
    *("config/consumerOffset.json", "config/consumerOffset.json.bak", "config/subscriptionGroup.json"),
    *("config/consumerFilter.json", "config/delayOffset.json", "config/lmqConsumerOffset.json"),
    *(f"reput/{name}" for name in own.FILE_NAMES),
)
PLACES_OF_FILES = [*FILES, *(pytest.param(name, marks=takes_long) for name in OTHER_FILES)]


def with_file_at(name: str, folder: Path) -> Path:
    """A store of a broker with a file in the place of a folder; the path of the file."""
    path = golden.unpack("json", folder) / name
    if path.is_dir():
        shutil.rmtree(path)
    path.write_bytes(b"a file")
    return path


def without_file_of_database(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """A store whose database of topics lacks a file: the store, the database, and the place of the file."""
    database = golden.unpack("config-v1", folder) / "config" / "topics"
    path = next(path for path in database.iterdir() if name in path.name)
    path.unlink()
    return database.parent.parent, database, path


def words_of(command: str, store: Path) -> list[str]:
    """The words of a command, with the store after its name."""
    verb, *others = command.split()
    place = 2 if verb in {"dump", "pending"} else 1
    return [*[verb, *others][:place], str(store), *[verb, *others][place:]]


@pytest.mark.parametrize("name", PLACES)
def test_a_file_in_place_of_a_folder_stopped_every_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands read all else, and name the file once with what helps; no command writes over it."""
    path = with_file_at(name, tmp_path)
    store = path.parents[name.count("/")]
    named = f"{path}: not a folder. There is a file where a folder belongs: RocketMQ makes none there, so move it away"
    for command in READS:
        code = run(words_of(command, store))
        out, err = capsys.readouterr()
        assert code in ({0} if command == "dump log" else {1}), f"{command}: {out}{err}"
        assert (out + err).count(named) == 1, f"{command}: {out}{err}"
    for command in WRITES:
        assert run(words_of(command, store)) == 1, command
        assert named in capsys.readouterr().err, command
    assert path.read_bytes() == b"a file"
    path.unlink()
    assert run(["info", str(store)]) == 0


def with_folder_at(name: str, folder: Path) -> Path:
    """A store of a broker with a folder in the place of a file; the path of the folder."""
    path = golden.unpack("json", folder) / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("name", PLACES_OF_FILES)
def test_a_folder_in_place_of_a_file_stopped_reads(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands read all else, and name the folder with what helps; no command writes beside it."""
    path = with_folder_at(name, tmp_path)
    store = path.parents[name.count("/")]
    is_log = name == "commitlog/00000000000000000000"
    named = f"{path}: not a file. There is a folder where a file belongs: RocketMQ makes none there, so move it away"
    for command in READS:
        code = run(words_of(command, store))
        out, err = capsys.readouterr()
        # Without any file of the log no message is at an offset.
        expected = 0 if command == "dump log" else 2 if is_log and command.startswith("query") else 1
        assert code == expected, f"{command}: {out}{err}"
        assert (out + err).count(named) == 1, f"{command}: {out}{err}"
    for command in WRITES:
        assert run(words_of(command, store)) == 1, command
        assert named in capsys.readouterr().err, command
    assert path.is_dir()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST", "sst"])
def test_a_folder_in_place_of_a_file_of_a_database(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database is named as damaged, and the rest of the store is read."""
    store, database, path = without_file_of_database(name, tmp_path)
    path.mkdir()
    for command in ("info", "check --no-spark", "get -t orders", "progress"):
        assert run(words_of(command, store)) == 1, command
        out, err = capsys.readouterr()
        assert str(database) in out + err, command
    assert run(words_of("rebuild --no-spark", store)) == 0
    assert str(database) in capsys.readouterr().err


PIPES = (
    *("config", "consumequeue/orders/0", "checkpoint", "commitlog/00000000000000000000", "config/topics.json"),
    *("config/consumerOffset.json", "consumequeue/orders/0/00000000000000000000"),
)
OTHER_PIPES = tuple(name for name in (*FIRST, *OTHERS, *FILES, *OTHER_FILES) if name not in PIPES)


def with_pipe_at(name: str, folder: Path, store: str = "json") -> Path:
    """A store of a broker with a named pipe in the place of a file or folder; the path of the pipe."""
    path = golden.unpack(store, folder) / name
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", [*PIPES, *(pytest.param(name, marks=takes_long) for name in OTHER_PIPES)])
def test_a_named_pipe_stopped_every_command(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No command waits for a program that writes the pipe: reads name it and go on, writes and brokers refuse."""
    path = with_pipe_at(name, tmp_path)
    store = path.parents[name.count("/")]
    for command in ("info", "check --no-spark", "get -t orders", "progress", "pending timers"):
        code = run(words_of(command, store))
        out, err = capsys.readouterr()
        assert code == 1, f"{command}: {out}{err}"
        assert f"{path}: not a fi" in (out + err) or f"{path}: not a folder" in (out + err), f"{command}: {out}{err}"
        assert "There is a named pipe where a" in out + err, f"{command}: {out}{err}"
    for command in ("put -t orders", "rebuild --no-spark"):
        assert run(words_of(command, store)) == 1, command
        assert "There is a named pipe where a" in capsys.readouterr().err, command
    with pytest.raises(reput.DamagedStoreError, match="named pipe"):
        reput.serve(store)
    assert path.is_fifo()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST", "sst"])
def test_a_named_pipe_in_a_database_stopped_every_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pipe is named, and the rest of the store is read; a broker does not start."""
    store, _, path = without_file_of_database(name, tmp_path)
    os.mkfifo(path)
    for command in ("info", "check --no-spark", "get -t orders", "progress"):
        assert run(words_of(command, store)) == 1, command
        out, err = capsys.readouterr()
        assert f"{path}: not a file. There is a named pipe" in out + err, command
    with pytest.raises(reput.DamagedStoreError, match=f"{path}: not a file"):
        reput.serve(store)


def test_a_folder_is_no_broker_conf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is given as the broker.conf is refused by name."""
    store, path = golden.unpack("json", tmp_path), tmp_path / "broker.conf"
    path.mkdir()
    assert run(["info", str(store), "--config", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
