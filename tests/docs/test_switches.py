"""docs/switches.md: what it says about `reput info` is what that does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from reput.cli.main import cli
from reput.errors import ReputError
from reput.formats import paths
from support import databases, golden

PAGE = Path(__file__).parents[2] / "docs" / "switches.md"
PARTS = ("Places of queues", "Index by key")
DOUBLE = "rocksdbCQDoubleWriteEnable=true"
NOTHING = "\N{EN DASH}"


class Case(NamedTuple):
    """A row of the page: `info` on a golden store with these settings says `says`; `lost` folders go first."""

    switch: str
    store: str
    settings: tuple[str, ...]
    says: str
    lost: tuple[str, ...] = ()
    is_silent: bool = False


CASES = [
    Case("storeType", "separate", ("storeType=default",), "note: .*asks for file queues, and there are rocksdb queues"),
    Case("storeType", "json", ("storeType=defaultRocksDB",), "note: .*asks for rocksdb queues"),
    Case("rocksdbCQDoubleWriteEnable", "double", (), r"in files and in RocksDB \(consumequeue\)"),
    Case("rocksdbCQDoubleWriteEnable", "lmq-rocksdb", ("rocksdbCQDoubleWriteEnable=false",), "note: light queues are"),
    Case(
        "combineCQLoadingCQTypes",
        "json",
        (
            DOUBLE,
            *(
                f"{name}=defaultRocksDB"
                for name in ("combineCQLoadingCQTypes", "combineCQPreferCQType", "combineAssignOffsetCQType")
            ),
        ),
        "note: .*asks for rocksdb queues",
    ),
    Case(
        "combineCQPreferCQType",
        "double",
        (DOUBLE, "combineCQLoadingCQTypes=default", "combineCQPreferCQType=defaultRocksDB"),
        "combineCQPreferCQType=defaultRocksDB: .*RocketMQ does not start",
    ),
    Case(
        "combineAssignOffsetCQType",
        "lmq-rocksdb",
        (DOUBLE, "combineCQUseRocksdbForLmq=true", "combineAssignOffsetCQType=defaultRocksDB"),
        "combineAssignOffsetCQType=defaultRocksDB.*RocketMQ refuses that",
    ),
    Case("combineCQUseRocksdbForLmq", "lmq-rocksdb", (), "placed +combineCQUseRocksdbForLmq=true"),
    Case(
        "rocksdbCQSelectiveDoubleWriteEnable",
        "double",
        (DOUBLE, "rocksdbCQSelectiveDoubleWriteEnable=true"),
        "placed +rocksdbCQSelectiveDoubleWriteEnable=true",
    ),
    Case("useSeparateStorePathForRocksdbCQ", "separate", (), r"in RocksDB \(consumequeue_rocksdb\)"),
    Case(
        "useSeparateStorePathForRocksdbCQ",
        "separate",
        ("useSeparateStorePathForRocksdbCQ=false",),
        "note: useSeparateStorePathForRocksdbCQ=false, and the database of queues is in",
    ),
    Case("messageIndexEnable", "json", (), "out of date: index", lost=(paths.INDEX,)),
    Case(
        "messageIndexEnable", "json", ("messageIndexEnable=false",), "out of date", lost=(paths.INDEX,), is_silent=True
    ),
    Case("indexRocksDBEnable", "index-both", (), "index +in RocksDB, up to the record at log offset"),
    Case(
        "indexFileWriteEnable",
        "json",
        ("indexFileWriteEnable=false",),
        "note: no index by key is kept",
        lost=(paths.INDEX,),
    ),
    Case(
        "indexFileWriteEnable",
        "json",
        ("indexFileWriteEnable=false",),
        "out of date: index",
        lost=(paths.INDEX,),
        is_silent=True,
    ),
    Case("indexFileReadEnable", "index-both", (), "out of date", lost=(paths.INDEX,), is_silent=True),
    Case("indexFileReadEnable", "index-both", ("indexFileReadEnable=true",), "out of date: index", lost=(paths.INDEX,)),
]


def said(store: Path, *settings: str) -> str:
    """Everything that `info` writes, and its error."""
    given = [part for setting in settings for part in ("--set", setting)]
    result = CliRunner().invoke(cli, ["info", str(store), *given], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, ReputError)
    return f"{result.output}{result.exception or ''}"


@pytest.mark.golden
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join([case.switch, case.store, *case.settings]))
def test_info_does_what_the_page_says(case: Case, tmp_path: Path) -> None:
    """Each row: the note, the line or the silence that the page promises."""
    store = golden.unpack(case.store, tmp_path)
    for folder in case.lost:
        shutil.rmtree(store / folder)
    assert (re.search(case.says, said(store, *case.settings)) is None) == case.is_silent


@pytest.mark.golden
def test_damage_in_either_database_is_shown(tmp_path: Path) -> None:
    """A database of queues, or of the index, that cannot be read is damage, each with its folder and what helps."""
    store = golden.unpack("separate", tmp_path)
    other = golden.unpack("index-both", tmp_path)
    for folder in (databases.folder_of(store), other / paths.INDEX_DATABASE):
        for path in folder.glob("*.sst"):
            path.write_bytes(path.read_bytes()[:-30])
    assert re.search("damage: .*consumequeue_rocksdb: .*reput rebuild --only queue", said(store))
    assert re.search("damage: .*rocksdbstore: .*reput rebuild --only index", said(other))


def rows(part: str) -> dict[str, str]:
    """The switches of a part of the page, each with its cell for `info`."""
    text = PAGE.read_text().partition(f"## {part}\n")[2].partition("\n## ")[0]
    table = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    names, _, *found = table
    at = names.index("`info`")
    return {row[0].strip("` "): row[at] for row in found}


@pytest.mark.parametrize("part", PARTS)
def test_every_row_is_held(part: str) -> None:
    """A switch about which the page says anything for `info` has a case above, and none other has."""
    promised = {switch for switch, cell in rows(part).items() if cell != NOTHING}
    elsewhere = {switch for other in PARTS if other != part for switch in rows(other)}
    assert promised == {case.switch for case in CASES} - elsewhere
