"""RocketMQ's own classes for the index in RocksDB read what reput has built, and answer questions by key from it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.log import properties as props
from support import golden
from tests.pipeline.build.index.test_database import ALONE, BOTH, families
from tests.store.test_index_database import by_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import ModuleType

pytestmark = [pytest.mark.peer, pytest.mark.golden]

DATABASE_ONLY = (
    *("--set", "indexRocksDBEnable=true"),
    *("--set", "indexFileWriteEnable=false"),
    *("--set", "indexFileReadEnable=false"),
)
"""RocketMQ's settings with which only IndexRocksDBStore and MessageRocksDBStorage answer questions by key."""
SETTINGS = StoreConfig(index_rocksdb_enable=True, index_file_write_enable=False, index_file_read_enable=False)


MOST = 64
"""RocketMQ's own bound of an answer (maxMsgsNumBatch)."""


def asked(peer: ModuleType, store: Path, questions: Iterable[list[Any]], tmp_path: Path) -> list[list[int]]:
    """The log offsets that RocketMQ finds for questions by topic, key and number, over the time of the log."""
    path, times = tmp_path / "questions.jsonl", [one.store_ms for one in golden.records(store)]
    span = [min(times), max(times)]
    path.write_text("".join(json.dumps({"key": [*question, *span]}) + "\n" for question in questions))
    lines = peer.run("ask", store, path, *peer.GOLDEN_SETTINGS, *DATABASE_ONLY)
    return [line["phys"] for line in lines]


@pytest.mark.parametrize("name", [BOTH, ALONE])
def test_rocketmq_answers_from_our_database(name: str, peer: ModuleType, tmp_path: Path) -> None:
    """From a database that reput built from nothing, RocketMQ answers as its broker did, and finds each message."""
    store = golden.unpack(name, tmp_path)
    wanted = families(store)
    shutil.rmtree(store / paths.INDEX_DATABASE)
    shutil.rmtree(store / paths.INDEX, ignore_errors=True)
    reput.rebuild(store, only="index", config=SETTINGS, spark=False)
    lines = [line for line in golden.answers(name) if "key" in line]
    assert asked(peer, store, (line["key"] for line in lines), tmp_path) == [line["phys"] for line in lines]
    for kind in (props.KEYS, props.UNIQUE_KEY):
        offsets = by_text(store, kind)
        questions = [[topic, key, MOST] for topic, key in offsets]
        assert asked(peer, store, questions, tmp_path) == [found[:MOST] for found in offsets.values()]
    # RocketMQ has opened and closed it, and has found nothing to add.
    assert families(store)[fmt.FAMILY] == wanted[fmt.FAMILY]
    assert not (store / paths.INDEX).exists() or not any((store / paths.INDEX).iterdir())


def test_rocketmq_goes_on_with_our_database(peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ indexes further messages in the database that reput built; all of them are found by both."""
    store = golden.unpack(ALONE, tmp_path)
    shutil.rmtree(store / paths.INDEX_DATABASE)
    reput.rebuild(store, only="index", config=SETTINGS, spark=False)
    before = families(store)[fmt.FAMILY]
    peer.run("append", store, 50, *peer.GOLDEN_SETTINGS, *DATABASE_ONLY)
    after = families(store)[fmt.FAMILY]
    assert before.items() - {(key, before[key]) for key in fmt.MARKS} <= after.items()
    assert after[fmt.LAST_OFFSET] > before[fmt.LAST_OFFSET]
    reput.rebuild(store, only="index", config=SETTINGS, spark=False)
    assert families(store)[fmt.FAMILY] == after
