"""A power cut, then reput, then RocketMQ: it opens what reput has made of the disk, and finds the same messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import reput
from support.determined import determined
from support.opened import pulled
from support.power import sweep
from support.power.disk import write_tree
from support.power.scenarios import ASYNC, SCENARIOS
from support.power.verdict import assert_kept
from support.search import cases, takes_long

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer

SETTINGS = (
    *("--commitlog-file", str(ASYNC.mapped_file_size_commit_log)),
    *("--cq-file", str(ASYNC.mapped_file_size_consume_queue)),
    *("--index-slots", str(ASYNC.max_hash_slot_num)),
    *("--index-items", str(ASYNC.max_index_num)),
)


OFTEN = ("put", "roll", "reput", "follow", "recovery", "rebuild")
"""The scenarios of a bounded run. A long one has all whose queues are files of the usual kind."""
SELDOM = sorted(SCENARIOS.keys() - {"to rocksdb", *OFTEN})


@pytest.mark.parametrize("name", [*OFTEN, *(pytest.param(one, marks=takes_long) for one in SELDOM)])
def test_rocketmq_opens_a_store_after_a_power_cut(name: str, tmp_path: Path, peer: ModuleType) -> None:
    """RocketMQ finds the same queues as reput after its recovery, and in each the same records at the same numbers."""
    recorded = sweep.record(name, tmp_path / "run")
    chance = random.Random(name)
    for number in range(cases(1, 8)):
        call = chance.randrange(len(recorded.journal) // 2, len(recorded.journal) + 1)
        tree, promises = sweep.state(recorded, sweep.State(call, chance.randrange(2, 1 << 32)))
        write_tree(tree, tmp_path / f"cut {number}")
        store = tmp_path / f"cut {number}" / "store"
        with determined():
            assert_kept(store, promises, SCENARIOS[name])
        with reput.MessageStore.open(store, SCENARIOS[name].config, read_only=True) as opened:
            wanted = {
                (topic, queue_id): (first, end, [one.physical_offset for one in pulled(opened, topic, queue_id)])
                for topic, queue_id, first, end in opened.queues()
            }
        dumped = [line for line in peer.run("dump", store, *SETTINGS) if "queue" in line]
        found = {
            tuple(line["queue"]): (line["min"], line["max"], [entry[1] for entry in line["entries"]]) for line in dumped
        }
        assert {key: queue for key, queue in found.items() if queue != (0, 0, [])} == wanted
