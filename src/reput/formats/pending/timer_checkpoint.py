"""config/timercheck: how far the timer wheel has read its queue and delivered its messages, in one page.

RocketMQ 5.0 writes the first four values; later versions write all.

Source: `org.apache.rocketmq.store.timer.TimerCheckpoint`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.layout import Field, Layout

FILE_NAME = "timercheck"
TIMER_CHECKPOINT = Layout(
    "config/timercheck",
    "TimerCheckpoint.flush",
    [
        Field("last_read_time_ms", "q", "messages that are due earlier have been delivered"),
        Field("last_timer_log_flush_pos", "q", "place up to which the timer log is flushed"),
        Field("last_timer_queue_offset", "q", "next message of queue 0 of rmq_sys_wheel_timer to take in"),
        Field("master_timer_queue_offset", "q", "the same of the master; replication"),
        Field("state_version", "q", "data version: the state machine's"),
        Field("timestamp", "q", "data version: time (ms)"),
        Field("counter", "q", "data version: number of changes"),
    ],
)
TIMER_CHECKPOINT_FILE_SIZE = 4096
assert TIMER_CHECKPOINT.size == 56


class TimerCheckpoint(NamedTuple):
    """The values of a timer checkpoint; times in ms."""

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Return the 4096 bytes of a timer checkpoint file."""
    return TIMER_CHECKPOINT.struct.pack(*checkpoint).ljust(TIMER_CHECKPOINT_FILE_SIZE, b"\0")


def decode_timer_checkpoint(data: bytes) -> TimerCheckpoint:
    """Return the values of a timer checkpoint file; raises struct.error if it is shorter than 56 bytes."""
    return TimerCheckpoint(*TIMER_CHECKPOINT.struct.unpack_from(data, 0))
