"""The job that builds queues out of order again: each is built by its own records, in whichever task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.pipeline.build.reorder import stage as reorder_stage
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("groups", [1, 2, 5, 256])
def test_queues_are_dealt_out_in_groups(tmp_path: Path, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More queues out of order than tasks, spread over many splits, are each built once, and none is mixed up."""
    monkeypatch.setattr(reorder_stage, "_GROUPS_MOST", groups)
    log = LogBuilder(file_size=2048)
    expected: dict[int, list[int | None]] = {queue: [] for queue in range(9)}
    for number in range(60):
        queue = number * 7 % 9
        at = len(expected[queue])
        # Every queue misses its offset 2, and has its offset 4 twice.
        if at == 2:
            expected[queue].append(None)
            at = 3
        placed = log.message(queue_id=queue, queue_offset=at)
        expected[queue].append(placed.offset)
        if at == 4:
            log.message(queue_id=queue, queue_offset=4)
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store)

    assert len(report.out_of_order_queues) == 9
    assert {queue: stores.positions(store, queue_id=queue) for queue in range(9)} == expected
