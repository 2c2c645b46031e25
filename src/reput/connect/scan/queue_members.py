"""Comparison of a queue's entries with their records: each record must belong to the queue.

A plain queue's records hold its topic, its id and their number there. A light queue (`%LMQ%...`) has entries for
records of other topics, which name it in INNER_MULTI_DISPATCH, and may have records of its own. The row of such a
record has the record's own topic, queue and number, as a consumer of the light queue gets it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.connect.cut.queue_cuts import QueueCut
from reput.connect.options.selection import Selection
from reput.connect.scan.arrays import Rows, topics_of
from reput.errors import DamagedStoreError
from reput.formats.stored_text import shown_text
from reput.formats.topics.lite_topics import is_light
from reput.kernels.layouts.columns import Columns, FurtherRecords
from reput.kernels.layouts.fields import FieldRow
from reput.log.read.decode import further_entries

_FEW = 16


def members(selection: Selection, cut: QueueCut, rows: Rows) -> Rows:
    """Return the rows of a cut's records as a frame shows them.

    Raises:
        DamagedStoreError: a record is not of that queue, or has another number there.
    """
    own = _own(cut, rows)
    if not is_light(cut.topic):
        _refuse(cut, rows, ~own)
        return rows
    if cut.topic not in selection.light_topics:
        # Its records of other topics are read with those topics.
        return rows if own.all() else rows.taken(np.flatnonzero(own))
    if not own.all():
        _refuse(cut, rows, ~(own | _dispatched(cut, rows)))
    found = topics_of(rows)
    names = [shown_text(name) for name in found.dictionary.to_pylist()]
    rows.topics, rows.topic_row = pa.array(names, pa.string()), np.asarray(found.indices).astype(np.int32)
    rows.queue_id = rows.table[FieldRow.QUEUE_ID].astype(np.int32)
    rows.queue_offset = rows.table[FieldRow.QUEUE_OFFSET].copy()
    return rows


def _own(cut: QueueCut, rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the records that have the queue and their number there as their own."""
    table, found = rows.table, topics_of(rows)
    of_topic = np.array([name == cut.range.key.topic for name in found.dictionary.to_pylist()], dtype=np.bool_)
    own: NDArray[np.bool_] = of_topic[np.asarray(found.indices)]
    own &= (table[FieldRow.QUEUE_ID] == rows.queue_id) & (table[FieldRow.QUEUE_OFFSET] == rows.queue_offset)
    return own


def _dispatched(cut: QueueCut, rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the records that name the light queue with the entry's number among their further queues."""
    columns = Columns(_FEW, _FEW)
    queue_id = rows.table[FieldRow.QUEUE_ID].astype(np.int32)
    numbers = np.arange(len(rows), dtype=np.int32)
    asked = FurtherRecords(numbers, rows.position, queue_id)
    record, queue, offset = further_entries(rows.log.bytes, asked, columns)
    of_queue = np.array([columns.topic(row) == cut.range.key.topic for row in range(columns.queues)], dtype=np.bool_)
    named = np.zeros(len(rows), dtype=np.bool_)
    if len(record):
        named[record[of_queue[queue] & (offset == rows.queue_offset[record])]] = True
    return named


def _refuse(cut: QueueCut, rows: Rows, aliens: NDArray[np.bool_]) -> None:
    if aliens.any():
        number = int(np.flatnonzero(aliens)[0])
        raise DamagedStoreError(
            f"{cut.topic}, queue {cut.queue_id}: queue offset {int(rows.queue_offset[number])} leads to log offset "
            f"{int(rows.position[number])}, which holds a message of another queue or number. Run `reput rebuild "
            "--only queue`, or read with scan=log"
        )
