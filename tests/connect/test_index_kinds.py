"""Reads by key through the index that answers queries: IndexFiles, or the database of a store that has only that."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import EqualTo

import reput
from reput.connect.options.filters import narrowed
from reput.connect.options.options import read_options
from reput.connect.options.selection import selection_of
from reput.connect.plan import explain, plan_batch
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.log import properties as props
from reput.formats.log.record import TRANSACTION_MASK, TRANSACTION_PREPARED
from support import frames, golden
from tests.pipeline.build.index.test_database import ALONE, BOTH, change, families
from tests.store.test_index_database import by_text

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {BOTH: "IndexFiles", ALONE: "the index in RocksDB"}


def asked(store: Path) -> dict[tuple[str, str], list[int]]:
    """The log offsets of what `query_message` finds for some keys and unique keys; no row has half a transaction."""
    found = {}
    with reput.MessageStore.open(store, read_only=True) as opened:
        for name in (props.KEYS, props.UNIQUE_KEY):
            for topic, key in [*by_text(store, name)][::40]:
                messages = opened.query_message(topic, key, 1000)
                found[topic, key] = [
                    one.physical_offset
                    for one in messages
                    if one.record.sys_flag & TRANSACTION_MASK != TRANSACTION_PREPARED
                ]
    return found


@pytest.mark.golden
@pytest.mark.parametrize("name", [BOTH, ALONE])
def test_keys_are_looked_up_as_a_query_does(name: str) -> None:
    """The data source and `reput.scan` look keys up in the index that answers queries, with the same answers."""
    store = golden.shared(name)
    wanted = asked(store)
    assert any(wanted.values())
    for (topic, key), offsets in wanted.items():
        plan = frames.plan(store, topic=topic, keys=key)
        assert plan.scan == "key"
        assert plan.why.endswith(f"for 1 key, by {WORDS[name]}")
        assert sorted(frames.rows_of(plan)["physicalOffset"].to_pylist()) == offsets
        table = reput.scan(store, topics=topic, keys=key, columns=["physicalOffset"]).read_all()
        assert sorted(table["physicalOffset"].to_pylist()) == offsets


@pytest.mark.golden
def test_an_index_that_was_turned_on_later_is_not_used(tmp_path: Path) -> None:
    """A database that lacks the log's first keys is not used: the plan says so and reads the log."""
    store = golden.unpack(ALONE, tmp_path)
    keys = sorted((key for key in families(store)[fmt.FAMILY] if key not in fmt.MARKS), key=fmt.offset_of)
    change(store, drop=keys[:3])
    (topic, key), offsets = max(by_text(store, props.KEYS).items(), key=lambda one: len(one[1]))
    plan = frames.plan(store, topic=topic, keys=key)
    assert plan.scan != "key"
    assert "keys are not looked up in an index: the index in RocksDB lacks the keys" in str(plan)
    assert set(frames.rows_of(plan)["physicalOffset"].to_pylist()) <= set(offsets)


@pytest.mark.golden
def test_a_filter_of_spark_reads_all_messages(tmp_path: Path) -> None:
    """The database has no message without a unique key, so a filter that needs every message does not use it."""
    store = golden.shared(ALONE)
    options = {"path": str(store), "topic": "orders"}
    one = EqualTo(("keys",), "k7")
    plan = plan_batch(read_options(options), narrowed(selection_of(read_options(options)), [one]))
    assert plan.scan != "key"
    assert "has no message without a unique key" in explain(options, one)
    both = plan_batch(
        read_options(options | {"path": str(golden.shared(BOTH))}), narrowed(selection_of(read_options(options)), [one])
    )
    assert both.scan == "key"


@pytest.mark.golden
def test_a_damaged_or_lost_index_is_not_used(tmp_path: Path) -> None:
    """A read by key of a store whose index cannot be read, or is gone, finds the messages in the log."""
    store = golden.unpack(ALONE, tmp_path)
    wanted = asked(golden.shared(ALONE))
    next((store / paths.INDEX_DATABASE).glob("MANIFEST-*")).write_bytes(b"garbage" * 100)
    for reason in ("cannot open", "the store has no index"):
        for (topic, key), offsets in [*wanted.items()][:5]:
            plan = frames.plan(store, topic=topic, keys=key)
            assert plan.scan != "key"
            assert reason in str(plan)
            assert sorted(frames.rows_of(plan)["physicalOffset"].to_pylist()) == offsets
        shutil.rmtree(store / paths.INDEX_DATABASE)
        (store / paths.INDEX_DATABASE).mkdir()
