"""Parts that decode tasks leave of queues: keys come back, whole or a range of them, and lengths are not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reput.errors import ReputError
from reput.files.part_file import Part, write_part
from reput.formats.own.part_file import PartKind
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.split.parts import KEY_ROWS, TOPICS, key_columns, keys_of

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [QueueKey(b"a", 0), QueueKey("订单".encode(), 3), QueueKey(b"t" * 200, 7)]
KIND = PartKind("keys", KEY_ROWS, TOPICS)


def test_any_range_of_keys(tmp_path: Path) -> None:
    """Queues [begin, end) of a part are those that were left."""
    path = str(tmp_path / "keys")
    write_part(path, KIND, **key_columns(KEYS))
    part = Part(path, KIND)
    assert keys_of(part) == KEYS
    for begin in range(4):
        for end in range(begin, 4):
            assert keys_of(part, begin, end) == KEYS[begin:end]
    write_part(path, KIND, **key_columns([]))
    assert keys_of(Part(path, KIND)) == []


@pytest.mark.parametrize("sizes", [[1, 6, 201], [1, 6, 199], [-1, 8, 200]])
def test_lengths_that_do_not_add_up(sizes: list[int], tmp_path: Path) -> None:
    """Topics' lengths below 0, or of another sum than the topics have, are refused."""
    path = str(tmp_path / "keys")
    write_part(path, KIND, **key_columns(KEYS) | {"topic_size": np.array(sizes, dtype=np.int32)})
    with pytest.raises(ReputError, match="do not add up"):
        keys_of(Part(path, KIND))
