"""consumerOffset.json between RocketMQ and reput: each reads what the other wrote, and writes the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.formats.config.consumer_offset import ConsumerOffsets, JsonWriter, decode, encode, group_topics
from reput.formats.config.data_version import DataVersion

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer

EVERY_CHARACTER = "".join(map(chr, range(0x250))).replace("@", "") + "\u2028\u2029\ufeff\ufffe€/<>&'😀"
TABLE = {
    "TopicTest@group": {0: 250, 1: 251, 100: (1 << 63) - 1, (1 << 31) - 1: 0, -1: -1},
    "%RETRY%group@group": {0: 7},
    "other@group": {},
    "TopicTest@second": {3: 4},
    "topic@group@192.168.0.1": {0: 1},
    "no separator": {0: 2},
    "@empty topic": {0: 3},
    "empty group@": {0: 4},
    f"odd@{EVERY_CHARACTER}": {5: 6},
}


def text_keys(table: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    """A table as the JSON of an answer has it."""
    return {key: {str(queue): offset for queue, offset in queues.items()} for key, queues in table.items()}


@pytest.mark.parametrize("table", [TABLE, {}], ids=["all kinds", "empty"])
def test_both_ways(table: dict[str, dict[int, int]], tmp_path: Path, peer: ModuleType) -> None:
    """RocketMQ reads our file as we meant it; its own of the same table we read so, and write byte for byte."""
    path = tmp_path / "consumerOffset.json"
    version = DataVersion(41, 0, 1_700_000_000_000)
    ours = encode(ConsumerOffsets(table, group_topics(table), version))
    path.write_bytes(ours)

    answer = peer.run("offsets", path)
    theirs = path.read_bytes()
    read = decode(theirs, str(path))

    assert answer == {
        "load": True, "counter": version.counter, "timestamp": version.timestamp, "offsets": text_keys(table),
    }  # fmt: skip
    assert (read.offset_table, read.data_version) == (table, version)
    assert {group: sorted(topics) for group, topics in (read.group_topics or {}).items()} == {
        group: sorted(topics) for group, topics in group_topics(table).items()
    }
    assert encode(read) == theirs
    assert (tmp_path / "consumerOffset.json.bak").read_bytes() == ours


def test_fastjson_1(tmp_path: Path, peer: ModuleType) -> None:
    """RocketMQ of today also reads what we write in the form of those before."""
    path = tmp_path / "consumerOffset.json"
    path.write_bytes(encode(ConsumerOffsets(TABLE), JsonWriter.FASTJSON1))

    assert text_keys(TABLE) == peer.run("offsets", path)["offsets"]
