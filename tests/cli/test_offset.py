"""`reput offset` as people and programs call it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError
from support import golden, stores
from support.opened import CONFIG, pulled, put


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["offset", *map(str, arguments)], standalone_mode=False)


def reported(*arguments: object) -> dict[str, Any]:
    """The JSON that a call gives."""
    done = call(*arguments, "--json")
    assert done.exception is None, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.golden
def test_spans_of_queues() -> None:
    """Without a time each queue has its offsets and the times of its first and last message; nothing is changed."""
    store = golden.shared("basic")
    before = stores.digest(store)
    found = reported(store, "-t", "payments")
    assert stores.digest(store) == before
    assert (found["ok"], found["topic"], [queue["queue_id"] for queue in found["queues"]]) == (
        True,
        "payments",
        [0, 1, 2, 3],
    )
    with reput.MessageStore.open(store, read_only=True) as opened:
        for queue in found["queues"]:
            number = queue["queue_id"]
            first, *_, last = pulled(opened, "payments", number)
            assert (queue["min_offset"], queue["max_offset"]) == (first.queue_offset, last.queue_offset + 1)
            assert queue["messages"] == last.queue_offset - first.queue_offset + 1
            assert queue["first_store_timestamp"] == first.store_timestamp
            assert queue["last_store_timestamp"] == last.store_timestamp
    assert reported(store, "-t", "payments", "-q", 3)["queues"] == [found["queues"][3]]


@pytest.mark.golden
def test_offsets_by_time() -> None:
    """--time gives the first message at or after it, with upper the last at or before it, in each queue."""
    store = golden.shared("basic")
    with reput.MessageStore.open(store, read_only=True) as opened:
        times = [message.store_timestamp for message in pulled(opened, "payments", 2)]
    middle = times[len(times) // 2]
    (lower,) = reported(store, "-t", "payments", "-q", 2, "--timestamp", middle)["queues"]
    (upper,) = reported(store, "-t", "payments", "-q", 2, "--timestamp", middle, "--boundary", "upper")["queues"]
    assert lower["offset"] == times.index(middle)
    assert upper["offset"] == len(times) - 1 - times[::-1].index(middle)
    assert lower["store_timestamp"] == upper["store_timestamp"] == middle
    after = reported(store, "-t", "payments", "--timestamp", times[-1] + 10_000)
    assert all(queue["offset"] == queue["max_offset"] for queue in after["queues"])
    assert all(queue["store_timestamp"] is None for queue in after["queues"])


@pytest.mark.golden
def test_text_is_a_table() -> None:
    """Text has the names of columns and then a line for each queue; a date means the same as its milliseconds."""
    store = golden.shared("basic")
    head, *rows = call(store, "-t", "payments").stdout.splitlines()[1:]
    assert head.split("\t")[:4] == ["queue", "min offset", "max offset", "messages"]
    assert [row.split("\t")[0] for row in rows] == ["0", "1", "2", "3"]
    with reput.MessageStore.open(store, read_only=True) as opened:
        second = opened.store_time("payments", 0, 10) // 1000
    date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    by_date = call(store, "-t", "payments", "--timestamp", date).stdout
    assert by_date == call(store, "-t", "payments", "--timestamp", second * 1000).stdout


def test_queues_that_no_index_has_yet(tmp_path: Path) -> None:
    """A queue that is not indexed yet, or has one message only, shows its span, too."""
    with reput.MessageStore.open(tmp_path, StoreConfig(mapped_file_size_commit_log=1 << 16), create=True) as store:
        put = store.put_message(reput.Message("t", b"a"), 5)
        (queue,) = reported(tmp_path, "-t", "t")["queues"]
    assert (queue["queue_id"], queue["messages"], queue["last_store_timestamp"]) == (5, 1, put.store_timestamp)


def test_misuse() -> None:
    """A boundary without a time, an unknown topic or queue, and what is no time are refused."""
    store = golden.shared("basic")
    assert "--boundary needs --time" in str(call(store, "-t", "payments", "--boundary", "upper").exception)
    assert "give milliseconds" in str(call(store, "-t", "payments", "--timestamp", "9" * 30).exception)
    for arguments, near in (
        (("-t", "click"), "Near it: clicks"),
        (("-t", "clicks", "-q", 4), "There are: 0, 1, 2, 3"),
    ):
        error = call(store, *arguments).exception
        assert isinstance(error, ConfigError)
        assert near in str(error)


def test_json_called_a_store_sound_whose_queue_had_lost_a_file(tmp_path: Path) -> None:
    """The verdict counts what the look at the queues has found."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 35, "orders")
    max((path / "consumequeue" / "orders" / "0").iterdir()).unlink()
    assert call(path, "-t", "orders", "-q", 0, "--json").return_value == 1
    found = reported(path, "-t", "orders", "-q", 0)
    assert not found["ok"]
    assert found["damage"]
