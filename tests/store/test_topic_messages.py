"""All messages of a topic, over all its queues: `store.messages`."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import ClosedError, ConfigError
from reput.formats.log.record import FLAG_INNER_BATCH
from support import inner
from support.checked import assert_sound
from support.opened import CONFIG, put
from support.switches import config_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig

ROCKSDB = config_of("rocksdb", CONFIG)


@pytest.mark.parametrize("config", [CONFIG, ROCKSDB], ids=["files", "rocksdb"])
def test_every_message_once_in_the_order_of_storing(config: StoreConfig, tmp_path: Path) -> None:
    """Indexed or not, of all queues or some: the messages are those that were put, as they were put."""
    rng, path, placed = random.Random(1), tmp_path / "s", []
    with reput.MessageStore.open(path, config, create=True) as store:
        for number in range(900):
            queue_id = rng.randrange(4) if number < 600 else 3
            result = store.put_message(
                reput.Message("t", str(number).encode(), tags="odd" if number % 2 else "even"), queue_id
            )
            placed.append((queue_id, result.physical_offset))
            put(store, 1, topic="other")
            if number == 700:
                store.reput(spark=False)
        wanted = [str(number).encode() for number in range(900)]
        found = list(store.messages("t"))
        assert [message.body for message in found] == wanted
        assert [(message.queue_id, message.physical_offset) for message in found] == placed
        assert [message.body for message in store.messages("t", filter="odd")] == wanted[1::2]
        for some in (2, [1, 3], [], range(9)):
            kept = {some} if isinstance(some, int) else set(some)
            expected = [wanted[number] for number, (queue_id, _) in enumerate(placed) if queue_id in kept]
            assert [message.body for message in store.messages("t", some)] == expected
        begin, end = found[300].store_timestamp, found[500].store_timestamp
        inside = [one.body for one in found if begin <= one.store_timestamp <= end]
        assert [message.body for message in store.messages("t", since=begin, until=end)] == inside
        assert list(store.messages("t", since=found[-1].store_timestamp + 1)) == []
        with pytest.raises(ConfigError, match=r"no topic 'no such topic'\. There are: other, t$"):
            store.messages("no such topic")
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert [message.body for message in store.messages("t")] == wanted
    assert_sound(path, config)


def test_what_is_put_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    """The iterator ends at what was stored when it was asked for, however fast others put."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 300)
        count = 0
        for _ in store.messages("t"):
            put(store, 3)
            count += 1
        assert count == 300
        half = store.messages("t")
        assert len(list(itertools.islice(half, 10))) == 10
    with pytest.raises(ClosedError):
        list(half)
    assert_sound(tmp_path / "s", CONFIG)


def test_files_that_expire_meanwhile_are_passed_over(tmp_path: Path) -> None:
    """Messages whose files are deleted on the way are left out, and the rest comes."""
    config = replace(CONFIG, mapped_file_size_commit_log=1 << 13, file_reserved_time=0)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 2000)
        store.reput(spark=False)
        messages = store.messages("t")
        first = next(messages)
        assert store.delete_expired(manual=True)
        bodies = [first.body, *(message.body for message in messages)]
        assert bodies[-1] == b"1999"
        assert len(bodies) < 2000
        assert bodies == sorted(bodies, key=int)


def test_batches_and_light_queues(tmp_path: Path) -> None:
    """A batch in one record comes once; a light queue gives the records that name it."""
    with inner.new_store(tmp_path / "s") as store:
        topic = next(iter(store.view.settings.types.batch)).decode()
        for number in range(20):
            batch = reput.Message(topic, str(number).encode(), properties={"INNER_NUM": "5"}, sys_flag=FLAG_INNER_BATCH)
            store.put_message(batch, number % 2).raise_for_status()
            light = reput.Message("plain", str(number).encode(), properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
            store.put_message(light, number % 3).raise_for_status()
        wanted = [str(number).encode() for number in range(20)]
        for asked in (topic, "%LMQ%a", "%LMQ%b", "plain"):
            assert [message.body for message in store.messages(asked)] == wanted
            store.reput(spark=False)
            assert [message.body for message in store.messages(asked)] == wanted


@pytest.mark.parametrize(
    ("topic", "queue_id", "named"),
    [
        (b"t", None, "topic b't': give a text"),
        ("t", "1", "queue '1': give a number"),
        ("t", [-1], "queue -1: queue ids"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(topic: object, queue_id: object, named: str, tmp_path: Path) -> None:
    """Impossible arguments are refused at the call, before the first message."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store, pytest.raises(ConfigError, match=named):
        store.messages(topic, queue_id)  # type: ignore[arg-type]
