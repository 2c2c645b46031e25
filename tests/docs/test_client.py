"""docs/tasks/client.md: its examples do what they say, and its numbers are those of the code."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.client import consumer, outgoing, producer
from reput.formats.wire.headers import MOST_TRIES

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "client.md"


def examples() -> list[str]:
    """The examples in Python."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_examples_work(capsys: pytest.CaptureFixture[str]) -> None:
    """The first one prints what it has sent; the second gets its own message; the third commits a transaction."""
    first, second, third = examples()
    with reput.serve() as broker:
        names: dict[str, Any] = {}
        exec(first.replace("127.0.0.1:9876", broker.address), names)
        assert capsys.readouterr().out == "b'one apple'\n"
        exec(second, names)
        (got,) = asyncio.run(names["main"](broker.address))
        assert got.body == b"a pear"
        exec(third.replace("127.0.0.1:9876", broker.address), names)
        with reput.Consumer("auditors", broker.address, {"orders": "*"}, start_at="first") as auditor:
            bodies: set[bytes] = set()
            while b"paid" not in bodies:
                bodies |= {message.body for message in auditor.poll(timeout_s=30)}
    assert bodies == {b"one apple", b"a pear", b"paid"}


def test_the_numbers_are_those_of_the_code() -> None:
    """Limits, tries and sizes that the page names."""
    text = PAGE.read_text("utf-8")
    assert f"{consumer.MAX_QUEUE_MESSAGES:,} messages that are not committed" in text
    assert f"{consumer.MAX_BYTES >> 20} MiB in all" in text
    assert f"after {MOST_TRIES} tries" in text
    assert f"Bodies of {outgoing.COMPRESS_FROM >> 10} KiB and more" in text
    assert f"batches of about {outgoing.BATCH_BYTES >> 20} MiB" in text
    assert producer.RETRIES == 2
    assert "two further tries" in text
