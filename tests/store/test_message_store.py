"""The message store: what is put is there at once, survives a kill, and nothing is believed that cannot be."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import (
    AccessError,
    ConfigError,
    StoreLockedError,
    TailFullError,
)
from reput.files import disk_space
from reput.formats.log.record import FLAG_BORN_HOST_V6, TRANSACTION_PREPARED, Host
from reput.formats.own import files as own
from reput.store import putting
from reput.store.disk.checkpoint import read_checkpoint
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK = reput.PutStatus.PUT_OK


@pytest.fixture
def store(tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A new store of small files; sound when the test is over."""
    path = tmp_path / "store"
    opened = reput.MessageStore.open(path, CONFIG, create=True)
    yield opened
    opened.close()
    assert_sound(path, CONFIG)


def test_put_is_readable_at_once(store: reput.MessageStore) -> None:
    """A message can be pulled, found by key and by its place as soon as its put returned."""
    for number in range(50):
        result = store.put_message(reput.Message("t", b"%d" % number, tags="a", keys=f"k{number}"), number % 3)
        assert store.get_message("t", number % 3, result.queue_offset)[0].body == b"%d" % number
        assert [found.body for found in store.query_message("t", f"k{number}")] == [b"%d" % number]
        found = store.message_at(result.physical_offset)
        assert found is not None
        assert (found.body, found.tags, found.keys) == (b"%d" % number, "a", [f"k{number}"])
        assert store.max_offset("t", number % 3) == number // 3 + 1


@pytest.mark.parametrize("when", ["tail", "indexed", "both", "reopened"])
def test_tail_and_index_answer_the_same(when: str, tmp_path: Path) -> None:
    """Nothing is seen twice or not at all, whether the tail, the files or both hold a queue."""
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put(store, 35, keys="k", tags="a")
    if when != "tail":
        store.reput(spark=False)
    if when == "both":
        put(store, 17, keys="k", tags="b")
    if when == "reopened":
        store.close()
        store = reput.MessageStore.open(path, CONFIG, create=True)
        put(store, 17, keys="k", tags="b")
    wanted = [str(number).encode() for number in range(35)]
    if when in ("both", "reopened"):
        wanted += [str(number).encode() for number in range(17)]
        assert store.estimate("t", 0, 0, 100, "b") == 17
        assert [found.body for found in store.get_message("t", 0, 0, 100, "b")] == wanted[35:35]
        assert [found.body for found in store.get_message("t", 0, 35, 100, "b")] == wanted[35:40]
    assert bodies(store) == wanted
    assert len(store.query_message("t", "k", 100)) == len(wanted)
    assert store.estimate("t", 0, 0, 100) == len(wanted)
    store.close()
    assert_sound(path, CONFIG)


def test_pull_goes_over_the_frontier(store: reput.MessageStore) -> None:
    """A pull that begins below the frontier continues above it, as far as its queue file would, each time."""
    put(store, 4, tags="a")
    store.reput(spark=False)
    put(store, 3, tags="b")
    for _ in range(2):
        assert len(store.get_message("t", 0, 1)) == 6
        found = store.get_message("t", 0, 0, 32, "b")
        assert (len(found), found.next_offset) == (3, 7)


def test_query_goes_on_behind_its_limit(store: reput.MessageStore) -> None:
    """An answer that is cut says so, and goes on with what is older; nothing is left out or given twice."""
    placed = put(store, 30, keys=["k", "other"])
    store.reput(spark=False)
    placed += put(store, 30, keys="k")
    found: list[int] = []
    before = None
    while True:
        answer = store.query_message("t", "k", 7, before=before)
        found = answer.physical_offsets + found
        if not answer.more:
            break
        before = answer.physical_offsets[0]
    assert found == placed


def test_other_keys_of_one_hash_are_told_apart(store: reput.MessageStore) -> None:
    """`Aa` and `BB` have one Java hash: only the record shows which it is."""
    put(store, 1, keys="Aa")
    put(store, 1, keys="BB")
    assert len(store.query_message("t", "Aa")) == 1
    assert len(store.query_message("t", "Aa", exact=False)) == 2


@pytest.mark.behaviour("MessageDecoderTest.testDecodeProperties", "MessageDecoderTest.testDecodePropertiesOnIPv6Host")
def test_kinds_of_messages(store: reput.MessageStore) -> None:
    """Long topics, IPv6 hosts, transactions and properties come back as they were put."""
    topic = "t" * 200
    host = Host(bytes(range(16)), 99)
    message = reput.Message(topic, b"x", properties={"region": "eu"}, born_host=host, flag=7, unique_key="u1")
    result = store.put_message(message)
    found = store.get_message(topic, 0, 0)[0]
    assert (found.topic, found.flag, found.unique_key, found.properties["region"]) == (topic, 7, "u1", "eu")
    assert found.record.born_host == host
    assert found.sys_flag & FLAG_BORN_HOST_V6
    assert store.query_message(topic, "u1").physical_offsets == [result.physical_offset]
    prepared = store.put_message(reput.Message("t", b"half", sys_flag=TRANSACTION_PREPARED, keys="tx"))
    assert store.max_offset("t", 0) == 0
    assert store.query_message("t", "tx").physical_offsets == [prepared.physical_offset]


def test_statuses(store: reput.MessageStore) -> None:
    """Offsets outside a queue, and queues that do not exist, have RocketMQ's statuses."""
    put(store, 5)
    status = reput.GetStatus
    cases = {
        ("t", 0, 5): (status.OFFSET_OVERFLOW_ONE, 5),
        ("t", 0, 6): (status.OFFSET_OVERFLOW_BADLY, 5),
        ("t", 0, 1 << 62): (status.OFFSET_OVERFLOW_BADLY, 5),
        ("t", 0, -1): (status.OFFSET_TOO_SMALL, 0),
        ("t", 1, 0): (status.NO_MATCHED_LOGIC_QUEUE, 0),
        ("unknown", 0, 0): (status.NO_MATCHED_LOGIC_QUEUE, 0),
        ("t", 0, 0): (status.FOUND, 5),
    }
    for (topic, queue_id, offset), wanted in cases.items():
        result = store.get_message(topic, queue_id, offset)
        assert (result.status, result.next_offset) == wanted
    nothing = store.get_message("t", 0, 0, filter="unheard")
    assert (nothing.status, nothing.next_offset) == (status.NO_MATCHED_MESSAGE, 5)


@pytest.mark.parametrize("topic", ["", "../x", "a/b", "a\0b", ".", "..", "x" * 256])
def test_topics_that_cannot_be(topic: str, store: reput.MessageStore) -> None:
    """A topic that cannot be a folder's name is refused for puts by status, for reads by an error that names it."""
    result = store.put_message(reput.Message(topic, b""))
    assert result.status is reput.PutStatus.MESSAGE_ILLEGAL
    assert result.physical_offset == -1
    with pytest.raises(ConfigError, match="topic"):
        store.get_message(topic, 0, 0)


def test_limits(store: reput.MessageStore) -> None:
    """Bodies, properties and keys over their limits are refused with a reason, and use up no queue offset."""
    status = reput.PutStatus
    assert store.put_message(reput.Message("t", bytes((4 << 20) + 1))).status is status.MESSAGE_ILLEGAL
    long = {"p": "x" * 32767}
    assert store.put_message(reput.Message("t", b"", properties=long)).status is status.PROPERTIES_SIZE_EXCEEDED
    assert store.put_message(reput.Message("t", b"", keys="a b")).status is status.MESSAGE_ILLEGAL
    assert store.put_message(reput.Message("t", b"", keys=["ok", ""])).status is status.MESSAGE_ILLEGAL
    assert store.put_message(reput.Message("t", b""), -1).status is status.MESSAGE_ILLEGAL
    assert put(store, 1) == [0]
    assert store.max_offset("t", 0) == 1


def test_a_batch_is_whole_or_not_there(store: reput.MessageStore) -> None:
    """One bad message and nothing of its batch is stored; a good batch lies in one file, its numbers running on."""
    good = [reput.Message("t", bytes(1000)) for _ in range(40)]
    assert not store.put_messages([*good, reput.Message("", b"")]).status.is_stored
    assert store.queues() == []
    first = store.put_messages(good)
    second = store.put_messages(good)
    size = CONFIG.mapped_file_size_commit_log
    assert size is not None
    for result, begin in ((first, 0), (second, 40)):
        assert result.status is OK
        assert result.queue_offsets.tolist() == list(range(begin, begin + 40))
        assert len(set((result.physical_offsets // size).tolist())) == 1
    assert len(bodies(store)) == 80


def test_two_writers(store: reput.MessageStore) -> None:
    """A second writer is refused by name; a reader beside is let in and sees what is put meanwhile."""
    with pytest.raises(StoreLockedError):
        reput.MessageStore.open(store.layout.root, CONFIG, create=True)
    put(store, 3)
    with reput.MessageStore.open(store.layout.root, CONFIG, read_only=True) as reader:
        assert bodies(reader) == [b"0", b"1", b"2"]
        put(store, 2)
        assert len(bodies(reader)) == 5
        store.reput(spark=False)
        put(store, 40)
        assert len(bodies(reader)) == 45
        store.reput(spark=False)
        assert len(bodies(reader)) == 45
        assert reader.view.queues_table.tail.entries == 0
        with pytest.raises(AccessError):
            reader.put_message(reput.Message("t", b""))


def test_full_tail_waits_then_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put fails with both ways out if too much waits for its indexes, and works again once there is room."""
    monkeypatch.setattr(putting, "TAIL_WAIT_S", 0.05)
    config = StoreConfig(tail_max_entries=10, mapped_file_size_commit_log=1 << 16)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 10)
        store.get_message("t", 0, 0)
        with pytest.raises(TailFullError, match=r"store.reput\(\).*reput follow"):
            put(store, 1)
        store.reput(spark=False)
        put(store, 1)


def test_threads(store: reput.MessageStore) -> None:
    """Many writers and readers at once: every queue holds each message once, in one order."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(100):
                result = store.put_message(reput.Message("t", b"%d-%d" % (number, count)), number % 2)
                assert store.get_message("t", number % 2, result.queue_offset)[0].body == b"%d-%d" % (number, count)
                if number == 0 and count % 25 == 0:
                    store.reput(spark=False)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for queue_id in range(2):
        found = bodies(store, "t", queue_id)
        assert sorted(found) == sorted(b"%d-%d" % (n, c) for n in range(queue_id, 6, 2) for c in range(100))


@pytest.mark.parametrize(("address", "shown"), [("10.1.2.3", "10.1.2.3:7"), ("2001:db8::5", "[2001:db8::5]:7")])
def test_records_name_their_broker(address: str, shown: str, tmp_path: Path) -> None:
    """The brokerIP1 and listenPort of a configuration are the store host of every record; a name is refused."""
    config = replace(CONFIG, broker_ip1=address, listen_port=7)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 1)
        store.put_messages([reput.Message("t", b"", born_host=Host(bytes(16), 1))])
        assert {str(message.record.store_host) for message in store.get_message("t", 0, 0)} == {shown}
    assert_sound(tmp_path / "s", config)
    for bad in (StoreConfig(broker_ip1="broker-a"), StoreConfig(listen_port=1 << 16)):
        with pytest.raises(ConfigError, match=r"brokerIP1=broker-a|listenPort=65536"):
            reput.MessageStore.open(tmp_path / "bad", bad, create=True)


def test_results_outlive_their_files(tmp_path: Path) -> None:
    """A result can be read after its log file has expired, whichever call gave it; later calls do not find it."""
    config = replace(CONFIG, file_reserved_time=0, mapped_file_size_commit_log=1 << 12)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        for number in range(100):
            store.put_message(reput.Message("t", b"%d" % number, keys=["k", f"k{number}"]))
        store.reput(spark=False)
        # The first answer of a kind comes in the general way, later ones by kernels.
        asked = [
            (store.get_message("t", 0, 0), store.query_message("t", "k1"), store.query_message("t", "k", 100))
            for _ in range(3)
        ]
        alone = store.message_at(0)
        while store.delete_expired(manual=True):
            pass
        assert store.message_at(0) is None
        assert len(store.query_message("t", "k1")) == 0
        for pulled, one, many in asked:
            assert [message.body for message in pulled] == [b"%d" % number for number in range(len(pulled))]
            assert [message.body for message in one] == [b"1"]
            assert [message.body for message in many] == [b"%d" % number for number in range(100)]
        assert alone is not None
        assert alone.body == b"0"


def test_a_disk_over_its_highest_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the warning level puts are refused with DISK_FULL and the level, reads go on; with room puts go on."""
    percent = [95]
    monkeypatch.setattr(disk_space, "disk_use", lambda _path: disk_space.DiskUse(percent[0], 100 - percent[0]))
    config = replace(CONFIG, clean_resource_interval=1 << 30)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 3)
        store.delete_expired()
        refused = store.put_message(reput.Message("t", b""))
        assert refused.status is reput.PutStatus.DISK_FULL
        assert f"{store.layout.commit_log}: " in refused.reason
        assert "90 % (diskSpaceWarningLevelRatio)" in refused.reason
        assert store.put_messages([reput.Message("t", b"")]).status is reput.PutStatus.DISK_FULL
        assert len(bodies(store)) == 3
        percent[0] = 50
        store.delete_expired()
        put(store, 3)
        assert len(bodies(store)) == 6


def test_sync_flush(tmp_path: Path) -> None:
    """With sync flush a put is durable when it returns, and visible only then."""
    config = StoreConfig(flush_disk_type="SYNC_FLUSH", mapped_file_size_commit_log=1 << 16)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        for number in range(5):
            result = store.put_message(reput.Message("t", b""))
            assert result.status is OK
            assert store._writing is not None
            assert store._writing.appender.flushed >= result.end_offset
            assert store.max_offset("t", 0) == number + 1


def test_an_event_loop_puts(tmp_path: Path) -> None:
    """With sync flush one thread has many puts under way; each is answered when it is durable, and is then visible."""
    config = StoreConfig(flush_disk_type="SYNC_FLUSH", mapped_file_size_commit_log=1 << 16)

    async def put_one(store: reput.MessageStore, number: int) -> int:
        result = await asyncio.wrap_future(
            store.put_message_async(reput.Message("t", str(number).encode()), number % 3)
        )
        assert result.status is OK
        assert store._writing is not None
        assert store._writing.appender.flushed >= result.end_offset
        assert store.max_offset("t", number % 3) > result.queue_offset
        return result.queue_offset

    async def put_all(store: reput.MessageStore) -> list[int]:
        return await asyncio.gather(*(put_one(store, number) for number in range(600)))

    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        assert asyncio.run(put_all(store)) == [number // 3 for number in range(600)]
        refused = store.put_message_async(reput.Message("t", b"", keys=["two words"]))
        assert refused.result(0).status is reput.PutStatus.MESSAGE_ILLEGAL
    assert_sound(tmp_path / "s", config)


def test_progress_calls(tmp_path: Path) -> None:
    """Offsets are reset, cloned and forgotten by group and topic; a store that is only read is not changed by any."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        for group, topic in (("g", "t"), ("g", "u"), ("h", "t"), ("i", "t")):
            assert store.commit_offset(group, topic, 0, 7)
        store.reset_offset("g", "t", 0, 3)
        assert store.query_offset("g", "t", 0) == 3
        assert not store.commit_offset("g", "t", 0, 8)
        assert store.take_reset("g", "t", 0) == 3
        assert store.take_reset("g", "t", 0) is None
        assert store.commit_offset("g", "t", 0, 4)
        assert store.clone_offsets("g", "new", "t") == 1
        assert store.clean_offsets(group="g", topic="u") == 1
        assert store.clean_offsets(group="h") == 1
        with pytest.raises(ConfigError, match="a group, a topic, or both"):
            store.clean_offsets()
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        pairs = [(group, topic) for group in ("g", "h", "i", "new") for topic in ("t", "u")]
        offsets = {pair: store.query_offset(*pair, 0) for pair in pairs}
        assert {pair: offset for pair, offset in offsets.items() if offset != -1} == {
            ("g", "t"): 4,
            ("i", "t"): 7,
            ("new", "t"): 4,
        }
        for call in (
            lambda: store.commit_offset("g", "t", 0, 1),
            lambda: store.reset_offset("g", "t", 0, 1),
            lambda: store.take_reset("g", "t", 0),
            lambda: store.clone_offsets("g", "h", "t"),
            lambda: store.clean_offsets(topic="t"),
        ):
            with pytest.raises(AccessError):
                call()
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert store.clean_offsets(topic="t") == 3
        assert store.query_offset("g", "t", 0) == -1


def test_progress_is_kept(tmp_path: Path) -> None:
    """Committed offsets are there when the store is opened again."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        store.commit_offset("g", "t", 0, 7)
        assert store.query_offset("g", "t", 0) == 7
        assert store.query_offset("g", "t", 1) == -1
    with reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as store:
        assert store.query_offset("g", "t", 0) == 7


@pytest.mark.parametrize("close_reputs", [True, False])
@pytest.mark.parametrize("forgets", [True, False])
def test_a_clock_that_was_set_back(clock: list[int], close_reputs: bool, forgets: bool, tmp_path: Path) -> None:
    """No message is stored earlier than the one before, also when the clock was set back between close and open."""
    path = tmp_path / "s"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put(store, 3)
    store.close(reput=close_reputs)
    if forgets:
        (store.layout.own(own.FRONTIER_NAME)).unlink(missing_ok=True)
    clock[0] -= 60_000
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        later = store.put_message(reput.Message("t", b"")).store_timestamp
        # Of the checkpoint is known that the last record may be one millisecond later.
        assert later >= clock[0] + 60_000 - 1
        assert store.offset_by_time("t", 0, clock[0] + 30_000) == 0


@pytest.mark.parametrize("call", [lambda store: store.flush(), lambda store: store.reput(spark=False)])
def test_a_flush_that_was_asked_for_moves_the_checkpoint(
    clock: list[int], call: Callable[[reput.MessageStore], object], store: reput.MessageStore
) -> None:
    """The checkpoint covers what a caller's own flush made durable, as after one of the service's."""
    store._flush.close()  # type: ignore[union-attr]
    put(store, 1)
    call(store)
    assert store._writing is not None
    store._writing.write_checkpoint()
    assert read_checkpoint(store.layout).physic_msg_timestamp == clock[0] - 1


@pytest.mark.parametrize("indexed", [False, True])
def test_a_range_of_time_is_exact(clock: list[int], indexed: bool, store: reput.MessageStore) -> None:
    """A query by key finds what was stored in [begin, end], to the millisecond, in the tail and in IndexFiles."""
    begin, steps = clock[0], [0, 1, 400, 999, 1000, 1001, 1999, 2500, 2500, 7000]
    for step in steps:
        clock[0] = begin + step
        put(store, 1, keys="k")
    if indexed:
        store.reput(spark=False)
    for low in steps:
        for high in steps:
            found = store.query_message("t", "k", 64, begin + low, begin + high)
            assert [one.store_timestamp - begin for one in found] == [step for step in steps if low <= step <= high]


def test_a_pause_in_front_of_an_index_file(clock: list[int], store: reput.MessageStore) -> None:
    """An IndexFile's first item keeps its time from the file before: after a pause it is found in its range as well."""
    for number in range(20):
        clock[0] += 60_000
        put(store, 1, keys="k")
        if number % 4 == 3:
            store.reput(spark=False)
    store.reput(spark=False)
    times = [one.store_timestamp for one in store.query_message("t", "k", 64)]
    for time in times:
        assert [one.store_timestamp for one in store.query_message("t", "k", 64, time, time)] == [time]


def test_questions_that_cannot_be(store: reput.MessageStore) -> None:
    """Half characters and unknown boundaries are errors that name them; no number of messages gives none."""
    put(store, 3, keys="k")
    for _ in range(3):
        for most in (0, -1, -(1 << 70)):
            found = store.query_message("t", "k", most)
            assert (len(found), found.more) == (0, True)
        for ask in (
            lambda: store.query_message("t", "half \ud800"),
            lambda: store.query_message("half \ud800", "k"),
            lambda: store.get_message("half \ud800", 0, 0),
            lambda: store.offset_by_time("t", 0, 0, "middle"),
        ):
            with pytest.raises(ConfigError, match=r"half|'middle'"):
                ask()
        store.reput(spark=False)


def test_offset_by_time(store: reput.MessageStore) -> None:
    """Lower is the first message at or after a time, upper the last at or before; 0 for no queue."""
    put(store, 30)
    times = [store.store_time("t", 0, offset) for offset in range(30)]
    for moment in {*times, times[0] - 1, times[-1] + 1, 0}:
        at_or_after = [offset for offset, time in enumerate(times) if time >= moment]
        at_or_before = [offset for offset, time in enumerate(times) if time <= moment]
        assert store.offset_by_time("t", 0, moment) == (at_or_after[0] if at_or_after else 30)
        assert store.offset_by_time("t", 0, moment, "upper") == (at_or_before[-1] if at_or_before else 0)
    assert store.offset_by_time("none", 0, times[0]) == 0


def test_columns(store: reput.MessageStore) -> None:
    """Messages given as Arrow columns are stored as those given one by one, with their keys and numbers."""
    import pyarrow as pa

    put(store, 2)
    table = pa.table(
        {
            "topic": ["t", "t", "u"],
            "queue_id": pa.array([0, 1, 0], pa.int32()),
            "body": [b"x", b"y", b"z"],
            "tags": ["a", None, "b"],
            "keys": [["k1", "k2"], [], ["k1"]],
        }
    )
    result = store.put_messages(table)
    assert result.status is OK
    assert result.queue_offsets.tolist() == [2, 0, 0]
    assert [message.body for message in store.query_message("t", "k2")] == [b"x"]
    assert store.get_message("u", 0, 0)[0].tags == "b"


def test_deletion_keeps_what_is_not_indexed(tmp_path: Path) -> None:
    """Expired files go from the oldest, never the last, never one that no index covers; numbers and keys follow."""
    config = replace(CONFIG, file_reserved_time=0, mapped_file_size_commit_log=1 << 12)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 100, keys="k")
        assert store.delete_expired(manual=True) == []
        store.reput(spark=False)
        files = len(store.view.log.starts)
        gone = store.delete_expired(manual=True)
        assert 0 < len(gone) <= min(10, files - 1)
        first = store.min_offset("t", 0)
        assert 0 < first < 100
        assert bodies(store) == [str(number).encode() for number in range(first, 100)]
        assert len(store.query_message("t", "k", 1000)) == 100 - first
        assert store.get_message("t", 0, 0).status is reput.GetStatus.OFFSET_TOO_SMALL
        while store.delete_expired(manual=True):
            pass
        assert len(store.view.log.starts) == 1
        assert store.put_message(reput.Message("t", b"")).queue_offset == 100
    assert_sound(tmp_path / "s", config)
