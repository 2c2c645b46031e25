"""The bound on the lines of the broker's log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import reput
from reput.broker.wire.line_bound import LINES_A_SECOND, LineBound
from reput.formats.topics.system_topics import SCHEDULE_TOPIC
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bounded(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[logging.Logger, LineBound]]:
    """A logger with a bound of its own."""
    logger = logging.getLogger("reput.test-bound")
    bound = LineBound(logger)
    logger.addFilter(bound)
    with caplog.at_level(logging.WARNING, logger.name):
        yield logger, bound
    logger.removeFilter(bound)


def test_ten_lines_of_a_kind_are_written_in_a_second(
    bounded: tuple[logging.Logger, LineBound], caplog: pytest.LogCaptureFixture
) -> None:
    """The others are counted in one line with the last of them; other kinds have a bound of their own."""
    logger, bound = bounded
    for number in range(25):
        logger.warning("left out: %d", number)
        logger.warning("closed", extra={"kind": f"reason {number % 5}"})
    written = [record.getMessage() for record in caplog.records]
    assert [line for line in written if line != "closed"] == [f"left out: {number}" for number in range(LINES_A_SECOND)]
    assert written.count("closed") == 25
    caplog.clear()
    bound.end_second(at_once=True)
    bound.end_second(at_once=True)
    assert caplog.messages == ["15 further lines in a second, the last one: left out: 24"]


def test_lines_of_the_next_second_are_written(
    bounded: tuple[logging.Logger, LineBound], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second begins with its first line; what was left out before is counted at its end."""
    logger, bound = bounded
    now_s = [5.0]
    monkeypatch.setattr("reput.broker.wire.line_bound.time.monotonic", lambda: now_s[0])
    for _ in range(2):
        for _ in range(12):
            logger.warning("again")
        now_s[0] += 1
    bound.end_second()
    counts = ["2 further lines in a second, the last one: again"] * 2
    assert caplog.messages == ["again"] * 20 + counts


def test_a_store_decided_how_many_lines_the_log_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of delayed messages that name no target ten have a line in a second; the rest is counted."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, create=True) as store:
        for _ in range(100):
            store.put_message(reput.Message(SCHEDULE_TOPIC, b"body"), queue_id=0)
    with reput.serve(path, config=reput.StoreConfig(message_delay_level="1s")):
        wait_until(lambda: "further lines" in caplog.text)
    lines = [line for line in caplog.messages if "names no target queue" in line]
    counts = [int(line.split()[0]) for line in lines if "further lines" in line]
    assert len(lines) < 50
    assert len(lines) - len(counts) + sum(counts) == 100
    assert_sound(path)
