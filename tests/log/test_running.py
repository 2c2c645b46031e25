"""Running flags: what each of them stops, and how the log's writer keeps to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.log.message import Message, PutStatus
from reput.log.running import RunningFlag
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("flag", list(RunningFlag))
def test_running_flags(flag: RunningFlag) -> None:
    """Each flag stops what RocketMQ lets it stop."""
    assert flag.is_readable == (flag is not RunningFlag.NOT_READABLE)
    assert flag.is_writeable == (flag is RunningFlag.NOT_READABLE)
    fills = {RunningFlag.NOT_READABLE, RunningFlag.DISK_FULL, RunningFlag.FENCED}
    assert flag.is_queue_writeable == (flag in fills)
    assert RunningFlag(0).is_writeable
    assert RunningFlag(0).is_readable


def test_the_flags_bits_are_the_peers() -> None:
    """The numbers are those that RocketMQ shows."""
    assert [int(flag) for flag in RunningFlag] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("flag", [flag for flag in RunningFlag if flag is not RunningFlag.NOT_READABLE])
@pytest.mark.parametrize("puts", [0, 1, 80])
def test_a_store_that_is_not_writeable_takes_no_puts(flag: RunningFlag, puts: int, tmp_path: Path) -> None:
    """While a flag is up puts and batches are refused with its status; when it is down again they go on."""
    status = PutStatus.DISK_FULL if flag is RunningFlag.DISK_FULL else PutStatus.SERVICE_NOT_AVAILABLE
    message = Message("orders", bytes(700))
    with open_log(tmp_path) as log:
        for _ in range(puts):
            log.append(message)
        before = log.wrote
        log.set_running(flag)
        for result in (log.append(message), log.append_many([message])):
            assert (result.status, flag.name in result.reason) == (status, True)
        assert log.wrote == before
        log.set_running(RunningFlag.NOT_READABLE)
        assert log.append(message).queue_offset == puts
    assert len(read_log(tmp_path)) == puts + 1
