"""The registry of consumers' filters does what RocketMQ's does, step by step, and its file is RocketMQ's."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.config import consumer_filter
from support.bloom import BloomFilter
from support.registry import FilterRegistry, encode, is_dead
from support.search import cases

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer


def some_steps(count: int) -> list[list[Any]]:
    """Groups that come, change and go.

    Texts that are no filters are registered on a topic of their own. After one RocketMQ keeps an old filter, as reput
    does, but no longer notices when its group goes.
    """
    chance = random.Random(4)
    steps: list[list[Any]] = []
    for n in range(count):
        group, topic = f"group-{chance.randrange(3)}", chance.choice(["orders", "订单"])
        if chance.random() < 0.2:
            steps.append(["unregister", group])
        else:
            sql, kind = chance.choice(["a > 5", "b = 'x'", ""]), chance.choice(["SQL92"] * 9 + ["TAG"])
            if chance.random() < 0.1:
                topic, sql = "none", "a >"
            steps.append(["register", topic, group, sql, kind, n // 4 + chance.randrange(-2, 3)])
    return steps


def of_file(data: bytes) -> dict[Any, Any]:
    """The filters of a file but for their times."""
    return {
        (one.topic, one.group): (*one._replace(born_ms=0, dead_ms=0), is_dead(one))
        for one in consumer_filter.decode(data, "peer")
    }


def test_steps(peer: ModuleType, tmp_path: Path) -> None:
    """After each of many steps both hold the same filters, and have said the same."""
    steps = some_steps(cases(80, 400))
    theirs = peer.run("filters", stdin="".join(json.dumps(step) + "\n" for step in steps).encode())
    ours = FilterRegistry(tmp_path, BloomFilter())
    for step, their in zip(steps, theirs, strict=True):
        ok = True
        if step[0] == "unregister":
            ours.unregister(step[1])
        else:
            topic, group, sql, kind, version = step[1:]
            ok = ours.register(topic, group, sql, version, kind)
        assert ok == their["ok"], step
        assert of_file(encode(ours.all())) == of_file(their["json"].encode()), step


def test_files(peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ reads the file that we write, and one filter of its own is written byte for byte as we write it."""
    ours = FilterRegistry(tmp_path, BloomFilter())
    for group in ("a", "b"):
        ours.register("订单", group, "a > 5 AND b = '\"\t\\'", 7)
    ours.persist()
    path = tmp_path / consumer_filter.FILE_NAME
    steps = [["load", str(path)], ["unregister", "none"]]
    theirs = peer.run("filters", stdin="".join(json.dumps(step) + "\n" for step in steps).encode())
    assert of_file(theirs[1]["json"].encode()) == of_file(encode(FilterRegistry.load(tmp_path, BloomFilter()).all()))
    steps = [["register", "订单", "a", "a > 5 AND b = '\"x\\'", "SQL92", 7]]
    data = peer.run("filters", stdin=(json.dumps(steps[0]) + "\n").encode())[0]["json"].encode()
    assert encode(consumer_filter.decode(data, "peer")) == data
