"""checkpoint: six times and offsets in one page, which say what is known to be on disk.

RocketMQ 4.x writes the first three, 5.5.1 all six, versions between them five. Values that were not written are 0.

An empty file is one that is created and not written yet: RocketMQ maps it, which gives it its size, and reads zeros.

Source: `org.apache.rocketmq.store.StoreCheckpoint`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.layout import Field, Layout

CHECKPOINT = Layout(
    "checkpoint",
    "StoreCheckpoint.flush",
    [
        Field("physic_msg_timestamp", "q", "store time (ms) up to which the CommitLog is flushed"),
        Field("logics_msg_timestamp", "q", "store time (ms) up to which the ConsumeQueues are flushed"),
        Field("index_msg_timestamp", "q", "store time (ms) up to which the IndexFiles are flushed"),
        Field("master_flushed_offset", "q", "what the master has flushed; replication only"),
        Field("confirm_phy_offset", "q", "after a recovery the start of the last good record"),
        Field(
            "logics_physical_offset",
            "q",
            "start of the last record whose entry is flushed; an abnormal recovery begins at or before it",
        ),
    ],
)
CHECKPOINT_FILE_SIZE = 4096
assert CHECKPOINT.size == 48


class Checkpoint(NamedTuple):
    """The values of a checkpoint; times in milliseconds, offsets in bytes."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """The store time (ms) up to which log and queues both are durable for sure (`getMinTimestamp`)."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - 3000)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the 4096 bytes of a checkpoint file."""
    return CHECKPOINT.struct.pack(*checkpoint).ljust(CHECKPOINT_FILE_SIZE, b"\0")


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Return the values of a checkpoint file; raises struct.error if it is shorter than 48 bytes."""
    return Checkpoint(*CHECKPOINT.struct.unpack_from(data, 0))
