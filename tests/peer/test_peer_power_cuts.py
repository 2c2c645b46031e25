"""A power cut, then reput, then RocketMQ: it opens what reput has made of the disk, and finds the same messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import reput
from support.determined import determined
from support.power import sweep
from support.power.disk import write_tree
from support.power.scenarios import ASYNC, SCENARIOS
from support.power.verdict import assert_kept
from support.search import cases

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


@pytest.mark.parametrize("name", ["put", "roll", "reput", "follow", "recovery", "rebuild"])
def test_rocketmq_opens_a_store_after_a_power_cut(name: str, tmp_path: Path, peer: ModuleType) -> None:
    """RocketMQ reports the ends of each queue, and as many messages, as reput does after its recovery."""
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
            wanted = {(topic, queue_id): (first, end) for topic, queue_id, first, end in opened.queues()}
        dumped = [line for line in peer.run("dump", store, *SETTINGS) if "queue" in line]
        found = {tuple(line["queue"]): (line["min"], line["max"]) for line in dumped}
        assert {key: span for key, span in found.items() if span != (0, 0)} == wanted
