"""The log as threads and other processes see it: while it is opened, and while a thread holds its lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from reput.files.watermarks import WatermarkCell
from reput.log.encode.message import Message
from support.appends import open_log

if TYPE_CHECKING:
    from pathlib import Path


def one() -> Message:
    """A message."""
    return Message("orders", b"body")


def test_more_than_is_durable_was_called_flushed_while_a_log_opened(tmp_path: Path) -> None:
    """At no instant has the shared word a higher offset than the one up to which the log is durable."""
    with open_log(tmp_path) as log:
        end = log.append(one()).end_offset
    seen: list[int] = []

    class Seen(list[int]):
        def __setitem__(self, at: Any, value: Any) -> None:
            seen.append(value)
            super().__setitem__(at, value)

        def release(self) -> None:
            """Do nothing: no other process has it."""

    class Cell:
        at, view = WatermarkCell.own().at, Seen([0])

    class Marks:
        def cell(self, name: str) -> Any:
            return Cell() if name == "flushed_offset" else WatermarkCell.own()

    open_log(tmp_path, end_offset=end, flushed_offset=0, watermarks=Marks()).close()
    assert seen[:1] == [0]
    assert seen[-1] == end


@pytest.mark.parametrize("kind", ["message", "list", "columns", "prepared"])
def test_a_put_waits_for_the_holder_of_the_lock(kind: str, tmp_path: Path) -> None:
    """A put of any kind stores nothing while another thread holds the lock, and then its message as if it had not."""
    with open_log(tmp_path) as log:
        log.append(one())
        queue = log.prepare("orders", 0)
        puts: dict[str, Any] = {
            "message": lambda: log.append(one()),
            "list": lambda: log.append_many([one()]),
            "columns": lambda: log.append_columns(pa.table({"topic": ["orders"], "body": [b"body"]})),
            "prepared": lambda: log.append_to(queue, b"body", None, None, None, 0, None) or log.append(one()),
        }
        thread = threading.Thread(target=puts[kind])
        with log._lock:
            before = log.wrote
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
            assert log.wrote == before
        thread.join()
        assert log.wrote > before
        assert log.next_offset("orders", 0) == 2
