"""Files in the place of folders: commands that read go on without them and name them, commands that write refuse."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from reput.cli.main import run
from support import golden
from support.search import takes_long

if TYPE_CHECKING:
    from pathlib import Path

FIRST = ("consumequeue", "config")
OTHERS = (
    *("index", "timerlog", "reput", "consumequeue_rocksdb", "consumequeue_ext", "batchconsumequeue"),
    *("rocksdbstore", "kvStore", "config/consumerOffsets", "config/metadata", "config/rdb"),
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


def with_file_at(name: str, folder: Path) -> Path:
    """A store of a broker with a file in the place of a folder; the path of the file."""
    path = golden.unpack("json", folder) / name
    if path.is_dir():
        shutil.rmtree(path)
    path.write_bytes(b"a file")
    return path


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
