"""The writer of the log: its bytes are the encoder's, refused puts leave no trace, readers see whole records only."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.errors import ClosedError, ConfigError
from reput.files import fs
from reput.files.watermarks import Watermarks
from reput.formats.log.record import (
    BLANK_SIZE,
    CHECK_PROPERTY,
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    MAGIC_V1,
    MAGIC_V2,
    Host,
    Record,
    Verdict,
    encode_blank,
    encode_record,
    examine,
)
from reput.formats.paths import offset_name
from reput.log.append import append as append_module
from reput.log.append import append_file
from reput.log.append.append import LogAppender
from reput.log.append.settings import FlushDiskType, LogSettings
from reput.log.encode.message import Message, PropertyEncoder, PutStatus
from support.appends import FILE_SIZE, open_log, read_log

if TYPE_CHECKING:
    from pathlib import Path

V6 = Host(bytes(range(16)), 10911)
OK, ILLEGAL = PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL


def one(**values: Any) -> Message:
    """A message with these values."""
    return Message(**{"topic": "orders", "body": b"body", **values})


messages = st.builds(
    Message,
    topic=st.sampled_from(("orders", "a", "订单", "订" * 43, "t" * 127, "t" * 128, "t" * 255)),
    body=st.binary(max_size=200),
    tags=st.sampled_from((None, "", "t1", "标签")),
    keys=st.sampled_from((None, "k", ["k1", "k2"])),
    properties=st.sampled_from((None, {}, {"n": "v"}, {"n": "v" * 600})),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sys_flag=st.sampled_from((0, 1, 2, 0x4, 0x8, 0xC, 0x30, 0x101)),
    born_timestamp=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    born_host=st.sampled_from((None, V6, Host(b"\x0a\0\0\1", 80))),
    unique_key=st.sampled_from((None, "u")),
    reconsume_times=st.sampled_from((0, 3, -1)),
    prepared_transaction_offset=st.sampled_from((0, 99)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(messages, st.integers(0, 2)), max_size=20), st.booleans(), st.booleans(), st.booleans())
def test_bytes_are_the_encoders(
    tmp_path_factory: pytest.TempPathFactory,
    puts: list[tuple[Message, int]],
    append_crc: bool,
    v6: bool,
    write_buffered: bool,
) -> None:
    """Any messages lie in the files as `encode_record` says, at the places and with the numbers that were returned."""
    folder = tmp_path_factory.mktemp("log")
    store_host = V6 if v6 else Host(b"\x7f\0\0\1", 10911)
    numbers: dict[tuple[str, int], int] = {}
    with open_log(
        folder,
        store_host=store_host,
        enabled_append_prop_crc=append_crc,
        transient_store_pool_enable=write_buffered,
        file_size=1 << 13,
    ) as log:
        results = [log.append(message, queue_id) for message, queue_id in puts]
        last = log.wrote
    data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    for (message, queue_id), result in zip(puts, results, strict=True):
        assert result.status is OK
        number = 0
        if message.sys_flag & 0xC in {0, 0x8}:
            number = numbers.get((message.topic, queue_id), 0)
            numbers[message.topic, queue_id] = number + 1
        topic = message.topic.encode()
        born = result.store_timestamp if message.born_timestamp is None else message.born_timestamp
        record = Record(
            topic,
            message.body,
            PropertyEncoder().encode(message),
            queue_id=queue_id,
            flag=message.flag,
            queue_offset=number,
            physical_offset=result.physical_offset,
            sys_flag=message.sys_flag,
            born_timestamp=born,
            born_host=message.born_host or store_host,
            store_timestamp=result.store_timestamp,
            store_host=store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            magic=MAGIC_V2 if len(topic) > 127 else MAGIC_V1,
        )
        assert data[result.physical_offset : result.end_offset] == encode_record(record, append_crc)
        assert result.queue_offset == number
    if puts:
        assert len(read_log(folder)) == len(puts)
        assert last == results[-1].end_offset


def test_limits_of_a_body(tmp_path: Path) -> None:
    """A body of the limit is stored, one byte more is MESSAGE_ILLEGAL, and the queue goes on at its number."""
    with open_log(tmp_path, max_message_size=1000) as log:
        assert log.append(one(body=bytes(1001))).status is ILLEGAL
        assert log.append(one(body=bytes(1000)))[:4] == (OK, 0, 1097, 0)


def test_a_record_that_fits_no_file(tmp_path: Path) -> None:
    """A record fits a file if 8 bytes are left after it; one byte longer it is refused and uses no number."""
    with open_log(tmp_path, file_size=1000) as log:
        fitting = 1000 - 8 - 97
        assert log.append(one(body=bytes(fitting + 1))).status is ILLEGAL
        assert log.append(one(body=bytes(fitting)))[:4] == (OK, 0, 992, 0)
        assert log.append(one())[:4] == (OK, 1000, 101, 1)
    assert [len(record.body) for record in read_log(tmp_path)] == [fitting, 4]


def test_put_message_when_properties_are_too_long(tmp_path: Path) -> None:
    """PROPERTIES_SIZE_EXCEEDED leaves the queue's number where it was; the next put takes it."""
    with open_log(tmp_path) as log:
        result = log.append(one(properties={"n": "v" * 32767}))
        assert result.status is PutStatus.PROPERTIES_SIZE_EXCEEDED
        assert "32767" in result.reason
        assert log.next_offset("orders", 0) == 0
        assert log.append(one()).queue_offset == 0


@pytest.mark.parametrize(
    "values",
    [
        {"topic": ""}, {"topic": "."}, {"topic": "../../x"}, {"topic": "a/b"}, {"topic": "a\0b"}, {"topic": "t" * 256},
        {"topic": "\ud800"}, {"topic": 7}, {"topic": None}, {"body": "text"}, {"body": None}, {"flag": 1 << 31},
        {"flag": "x"}, {"born_timestamp": 1 << 63}, {"sys_flag": 0x80}, {"born_host": Host(b"abc", 1)},
        {"reconsume_times": 1 << 31}, {"prepared_transaction_offset": 1 << 63}, {"keys": "a b"},
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(values: dict[str, Any], tmp_path: Path) -> None:
    """Bad topics, bodies and numbers are MESSAGE_ILLEGAL with a reason, alone and in a batch; nothing is written."""
    with open_log(tmp_path) as log:
        first = log.append(one())
        before = log.wrote, log.next_offsets()
        result = log.append(one(**values))
        assert (result.status, bool(result.reason)) == (ILLEGAL, True)
        many = log.append_many([one(), one(**values)])
        assert (many.status, len(many.sizes)) == (ILLEGAL, 0)
        assert "message 1" in many.reason
        assert (log.wrote, log.next_offsets()) == before
    assert [record.physical_offset for record in read_log(tmp_path)] == [first.physical_offset]


@pytest.mark.parametrize("queue_id", [-1, 1 << 31, 1.5, "0", None])
def test_queue_ids_are_those_of_folders(queue_id: Any, tmp_path: Path) -> None:
    """A queue id that no folder can have is refused."""
    with open_log(tmp_path) as log:
        assert log.append(one(), queue_id).status is ILLEGAL
        assert log.append_many([one()], [queue_id]).status is ILLEGAL
        assert log.append(one(), (1 << 31) - 1).status is OK


def test_numbers_of_queues_near_and_far(tmp_path: Path) -> None:
    """Queues with any ids count by themselves, put alone or in batches; after a deletion they begin again."""
    ids = [0, 5, 1023, 1024, 70_000, (1 << 31) - 1]
    with open_log(tmp_path) as log:
        for turn in range(2):
            assert [log.append(one(), queue_id).queue_offset for queue_id in ids] == [turn] * 6
        assert list(log.append_many([one()] * 6, ids).queue_offsets) == [2] * 6
        assert log.next_offsets() == {(b"orders", queue_id): 3 for queue_id in ids}
        assert [log.next_offset("orders", queue_id) for queue_id in (5, 6, 1024, 1025, -1)] == [3, 0, 3, 0, 0]
        assert log.forget_queues("orders", 1024, {1024: 3}, lambda: "gone") == "gone"
        assert log.forget_queues("orders", 5, {5: 3}, lambda: "gone") == "gone"
        left = {(b"orders", queue_id): 3 for queue_id in ids if queue_id not in (5, 1024)}
        assert log.next_offsets() == left
        assert [log.append(one(), queue_id).queue_offset for queue_id in ids] == [3, 0, 3, 0, 3, 3]
        assert log.forget_queues("orders", None, {0: 3}, pytest.fail) is None
        assert log.forget_queues("orders", None, log.offsets_of("orders"), lambda: "gone") == "gone"
        assert log.forget_queues("others", None, log.offsets_of("others"), lambda: "gone") == "gone"
        assert log.next_offsets() == {}
        assert [log.append(one(), queue_id).queue_offset for queue_id in ids] == [0] * 6


def test_long_topics_without_v2(tmp_path: Path) -> None:
    """With autoMessageVersionOnTopicLen off a topic ends at 127 bytes."""
    with open_log(tmp_path, auto_message_version_on_topic_len=False) as log:
        assert log.append(one(topic="t" * 127)).status is OK
        assert log.append(one(topic="t" * 128)).status is ILLEGAL


@pytest.mark.parametrize("host", [Host(b"\x7f\0\0\1", 1), V6])
def test_hosts_set_their_bits(host: Host, tmp_path: Path) -> None:
    """The bits of sysFlag say the hosts' kinds, whatever the message says."""
    with open_log(tmp_path, store_host=host) as log:
        log.append(one(sys_flag=0x31))
        log.append(one(born_host=V6))
    bits = FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6 if host is V6 else 0

    assert [record.sys_flag for record in read_log(tmp_path)] == [1 | bits, bits | FLAG_BORN_HOST_V6]


@pytest.mark.parametrize("host", [Host(b"\x7f\0\0\1", 1), V6])
@pytest.mark.parametrize("topic", ["t", "t" * 128])
def test_an_ordinary_put_gives_the_encoders_bytes(
    host: Host, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second message of a shape is packed into the map without the general way, and its bytes are the same."""
    with open_log(tmp_path, store_host=host) as log:
        log.append(one(topic=topic, body=b"first", flag=1))
        monkeypatch.delattr(log.__class__, "_append_any")
        second = log.append(one(topic=topic, body=b"other", flag=-2, born_timestamp=1 << 40))
    *_, record = read_log(tmp_path)
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))

    assert (record.body, record.flag, record.queue_offset, record.born_timestamp) == (b"other", -2, 1, 1 << 40)
    assert data[second.physical_offset : second.end_offset] == encode_record(record)


@pytest.mark.parametrize("host", [Host(b"\x7f\0\0\1", 1), V6])
def test_messages_of_clients_take_the_ordinary_way(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with a born host of IPv4 is an ordinary one, and each record has its own; one of IPv6 is not."""
    clients = [Host(bytes([10, 0, 0, number]), 50_000 + number) for number in (1, 2, 2, 1)]
    with open_log(tmp_path, store_host=host) as log:
        log.append(one())
        log.append(one(born_host=V6))
        monkeypatch.delattr(log.__class__, "_append_any")
        assert [log.append(one(born_host=client)).status for client in clients] == [OK] * 4
        assert log.append(one()).status is OK
    found = read_log(tmp_path)
    assert [record.born_host for record in found] == [host, V6, *clients, host]
    assert [record.queue_offset for record in found] == list(range(7))
    assert {record.store_host for record in found} == {host}


def test_transactions_take_no_number(tmp_path: Path) -> None:
    """Prepared and rolled-back messages are number 0 and do not move their queue; committed ones do."""
    with open_log(tmp_path) as log:
        numbers = [log.append(one(sys_flag=flag)).queue_offset for flag in (0, 0x4, 0x8, 0xC, 0)]
    assert numbers == [0, 0, 1, 0, 2]


def test_crc_property(tmp_path: Path) -> None:
    """With the CRC property on, one flipped byte anywhere before it is found; untouched records pass."""
    with open_log(tmp_path, enabled_append_prop_crc=True) as log:
        log.append(one(tags="t"))
        log.append_many([one(), one(tags="t")])
        ends = log.wrote
    assert len(read_log(tmp_path, crc_check=CHECK_PROPERTY)) == 3
    data = bytearray(next(tmp_path.iterdir()).read_bytes()[:ends])
    data[121] ^= 1
    assert examine(data, 0, len(data), 0, CHECK_PROPERTY)[0] is Verdict.BAD_CRC


def test_a_batch_rolls_whole(tmp_path: Path) -> None:
    """A batch that does not fit the rest of a file goes to the next one, all of it, after a blank record."""
    batch = [one(body=bytes(100))] * 3
    with open_log(tmp_path, file_size=1000) as log:
        log.append(one(body=bytes(400)))
        result = log.append_many(batch)
        assert result.physical_offsets.tolist() == [1000, 1197, 1394]
        assert result.queue_offsets.tolist() == [1, 2, 3]
        assert result.end_offset == log.wrote == 1591
        exact = log.append_many([one(body=bytes(399))] * 2)
        assert exact.status is OK
        assert log.append_many([one(body=bytes(400))] * 3).status is ILLEGAL
        assert log.wrote == exact.end_offset
    assert len(read_log(tmp_path)) == 6


@pytest.mark.parametrize("puts", [0, 1, 80])
def test_blocked_puts_are_refused(puts: int, tmp_path: Path) -> None:
    """While puts are blocked, single ones and batches are refused with the reason; then they go on."""
    message = one(body=bytes(700))
    with open_log(tmp_path) as log:
        for _ in range(puts):
            log.append(message)
        before = log.wrote
        log.block_puts("no room")
        for result in (log.append(message), log.append_many([message])):
            assert (result.status, result.reason) == (PutStatus.DISK_FULL, "no room")
        assert log.wrote == before
        log.block_puts("")
        assert log.append(message).queue_offset == puts
    assert len(read_log(tmp_path)) == puts + 1


@pytest.mark.parametrize(("spare", "rolls"), [(BLANK_SIZE, False), (BLANK_SIZE - 1, True)])
def test_a_file_ends_with_a_blank_record(tmp_path: Path, spare: int, rolls: bool) -> None:
    """A record stays in its file if 8 bytes are left after it; with fewer, a blank record ends the file."""
    with open_log(tmp_path / "size") as log:
        size = log.append(one()).size
    file_size = 2 * size + spare
    with open_log(tmp_path / "log", file_size=file_size) as log:
        log.append(one())
        assert log.append(one()).physical_offset == (file_size if rolls else size)
    data = (tmp_path / "log" / offset_name(0)).read_bytes()
    assert len(data) == file_size
    assert (data[size : size + BLANK_SIZE] == encode_blank(file_size - size)) == rolls


@pytest.mark.parametrize(("host", "length"), [(Host(b"\x7f\0\0\1", 1), 32), (V6, 56)])
def test_put_messages(host: Host, length: int, tmp_path: Path) -> None:
    """Ten messages of a batch have ten ids, one store time, and lie where their sizes say."""
    with open_log(tmp_path, store_host=host) as log:
        result = log.append_many([one(tags="t", body=bytes(size)) for size in range(10)])
    records = read_log(tmp_path)

    assert {len(record.message_id) for record in records} == {length}
    assert len({record.message_id for record in records}) == 10
    assert [len(record.body) for record in records] == list(range(10))
    assert [record.queue_offset for record in records] == list(range(10))
    assert {record.store_timestamp for record in records} == {result.store_timestamp}
    assert result.physical_offsets.tolist() == [sum(result.sizes[:n]) for n in range(10)]


def test_a_batch_over_queues(tmp_path: Path) -> None:
    """Each message of a batch gets the next number of its own queue; times are equal."""
    with open_log(tmp_path) as log:
        log.append(one(), 1)
        result = log.append_many([one(), one(topic="b"), one(), one()], [1, 1, 0, 1])
    records = read_log(tmp_path)

    assert result.queue_offsets.tolist() == [1, 0, 0, 2]
    assert [record.queue_offset for record in records[1:]] == [1, 0, 0, 2]
    assert {record.store_timestamp for record in records[1:]} == {result.store_timestamp}
    assert [record.physical_offset for record in records[1:]] == result.physical_offsets.tolist()


@pytest.mark.parametrize("bad", [one(sys_flag=0x4), one(properties={"DELAY": "3"})])
def test_no_transactions_nor_delays_in_a_batch(bad: Message, tmp_path: Path) -> None:
    """A batch takes no transactions or delays: they are put one by one, as with RocketMQ."""
    with open_log(tmp_path) as log:
        assert log.append_many([one(), bad]).status is ILLEGAL
        assert log.append(bad).status is OK


def test_an_empty_batch_is_stored_at_once(tmp_path: Path) -> None:
    """Nothing to store is no error and moves nothing."""
    with open_log(tmp_path) as log:
        assert log.append_many([]).status is OK
        assert log.wrote == 0
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ids", [[0], [0, 0, 0]])
def test_queue_ids_match_the_batch(ids: list[int], tmp_path: Path) -> None:
    """A batch with too few or too many queue ids is refused."""
    with open_log(tmp_path) as log:
        assert log.append_many([one(), one()], ids).status is ILLEGAL


def test_the_clock_never_runs_backwards_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record gets the time of the one before it while the clock is set back; also across an open."""
    now_ms, times = [0], []
    monkeypatch.setattr(append_module, "_time_ns", lambda: now_ms[0] * 1_000_000)
    with open_log(tmp_path, last_store_timestamp=4500) as log:
        for now_ms[0], put in (
            (5000, log.append),
            (4000, log.append),
            (3000, lambda message: log.append_many([message])),
            (6000, log.append),
        ):
            times.append(put(one()).store_timestamp)
        assert times == [5000, 5000, 5000, 6000]


@pytest.mark.parametrize("begin", [0, 5000])
def test_full_pages_leave_the_map_and_stay_in_the_file(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages after the end are taken out of the writer's map, and what they hold is read as before."""
    monkeypatch.setattr(append_file, "TOUCH_STEP", 4096)
    taken: list[tuple[int, int]] = []
    true = fs.forget_pages
    monkeypatch.setattr(fs, "forget_pages", lambda memory, *place: (taken.append(place), true(memory, *place))[1])
    queues = {(b"orders", 0): begin // 91}
    with open_log(tmp_path) as log:
        while log.wrote < begin:
            log.append(one(body=bytes(100)))
        end = log.wrote
    taken.clear()
    with open_log(tmp_path, end_offset=end, queues=queues) as log:
        results = [log.append(one(body=number.to_bytes(100))) for number in range(200)]
    assert {result.status for result in results} == {OK}
    records = read_log(tmp_path, end)
    assert [int.from_bytes(record.body) for record in records] == list(range(200))
    assert taken[0][0] == end // 4096 * 4096
    assert all(at <= taken_to for at, taken_to in taken)
    # Each begins at the last whole page of the one before: none is left out.
    assert [at for at, _ in taken[1:]] == [taken_to // 4096 * 4096 for _, taken_to in taken[:-1]]
    assert taken[-1][1] > FILE_SIZE // 4


@pytest.mark.parametrize("puts", [0, 3, 8, 9, 20])
def test_an_opened_log_goes_on(puts: int, tmp_path: Path) -> None:
    """Closed and opened at its end, with its queues' numbers, the log goes on as if nothing had been."""
    with open_log(tmp_path, file_size=1000) as log:
        for _ in range(puts):
            log.append(one())
        end, queues = log.wrote, log.next_offsets()
    with open_log(tmp_path, file_size=1000, end_offset=end, queues=queues) as log:
        assert log.wrote == log.flushed == log.confirmed == end
        assert [log.append(one()).queue_offset for _ in range(10)] == list(range(puts, puts + 10))
    assert [record.queue_offset for record in read_log(tmp_path)] == list(range(puts + 10))


def test_an_end_outside_the_files_is_refused(tmp_path: Path) -> None:
    """The end must lie in a file or begin the next one; a file of another size is not touched."""
    for end in (1, FILE_SIZE + 1):
        with pytest.raises(ConfigError):
            open_log(tmp_path, end_offset=end)
    (tmp_path / f"{FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    open_log(tmp_path, end_offset=2 * FILE_SIZE).close()
    with pytest.raises(ConfigError):
        open_log(tmp_path, end_offset=3 * FILE_SIZE)
    with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
        open_log(tmp_path, end_offset=FILE_SIZE + 10, file_size=FILE_SIZE // 2)
    assert (tmp_path / f"{FILE_SIZE:020d}").stat().st_size == FILE_SIZE


def test_numbers_that_a_log_cannot_have_reached(tmp_path: Path) -> None:
    """A queue whose next number would make its records look like damage takes no puts; it keeps its number."""
    queues = {(b"orders", 0): 10_000_000, (b"orders", 1): 5}
    with open_log(tmp_path, queues=queues) as log:
        assert "reput check" in log.append(one(), 0).reason
        assert log.append_many([one()]).status is ILLEGAL
        assert log.append(one(), 1).queue_offset == 5
        assert log.next_offsets() == {(b"orders", 0): 10_000_000, (b"orders", 1): 6}


def test_a_closed_log_refuses_everything(tmp_path: Path) -> None:
    """After close each call is a typed error, and a second close does nothing."""
    log = open_log(tmp_path)
    log.append(one())
    log.close()
    log.close()
    for call in (lambda: log.append(one()), lambda: log.append_many([one()]), log.flush, log.commit):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert log.wrote == log.flushed


@pytest.mark.parametrize("kind", ["async", "sync", "buffered"])
def test_positions(kind: str, tmp_path: Path) -> None:
    """Readers may look up to what is written, flushed (with sync flush), or committed (with a write buffer)."""
    marks = Watermarks(tmp_path / "watermarks")
    log = open_log(
        tmp_path / "log",
        watermarks=marks,
        flush_disk_type=FlushDiskType.SYNC_FLUSH if kind == "sync" else FlushDiskType.ASYNC_FLUSH,
        transient_store_pool_enable=kind == "buffered",
    )

    def positions() -> tuple[int, ...]:
        shared = tuple(marks[f"{name}_offset"] for name in ("wrote", "flushed", "confirmed"))
        assert shared == (log.wrote, log.flushed, log.confirmed)
        return (log.wrote, log.committed, log.flushed, log.confirmed)

    end = log.append(one()).end_offset
    assert positions() == {"async": (end, end, 0, end), "sync": (end, end, 0, 0), "buffered": (end, 0, 0, 0)}[kind]
    log.commit()
    assert positions() == {"async": (end, end, 0, end), "sync": (end, end, 0, 0), "buffered": (end, end, 0, end)}[kind]
    log.flush()
    assert positions() == (end, end, end, end)
    log.close()
    marks.close()


def test_threads_share_the_log(tmp_path: Path) -> None:
    """Many threads put at once: places do not overlap, numbers have no gap, and a reader sees whole records only."""
    wrong: list[str] = []
    done = threading.Event()
    log = open_log(tmp_path, file_size=1 << 15)

    def put(thread: int) -> None:
        for number in range(150):
            if number % 10:
                log.append(one(body=b"%d" % thread), thread % 2)
            else:
                log.append_many([one(topic="b")] * 3, thread)

    def watch() -> None:
        while not done.is_set():
            limit = log.confirmed
            at = 0
            while at < limit:
                file = tmp_path / f"{at - at % (1 << 15):020d}"
                data = file.read_bytes()
                verdict, size = examine(data, at % (1 << 15), 1 << 15, at)
                if verdict not in {Verdict.GOOD, Verdict.BLANK}:
                    wrong.append(f"{verdict} at {at} of {limit}")
                    return
                at += size
            log.flush()

    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    queues = log.next_offsets()
    log.close()
    numbers: dict[tuple[bytes, int], list[int]] = {}
    for record in read_log(tmp_path):
        numbers.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)

    assert not wrong
    assert {queue: len(seen) for queue, seen in numbers.items()} == queues
    assert all(seen == list(range(len(seen))) for seen in numbers.values())
    assert sum(queues.values()) == 4 * (135 + 45)


def test_times_are_those_of_the_put(tmp_path: Path) -> None:
    """A message is born and stored when it is put, unless it says when it was born."""
    begin = time.time_ns() // 1_000_000
    with LogAppender(tmp_path, LogSettings(mapped_file_size_commit_log=FILE_SIZE)) as log:
        result = log.append(one())
        log.append(one(born_timestamp=17))
    first, second = read_log(tmp_path)

    assert begin <= first.born_timestamp == first.store_timestamp == result.store_timestamp
    assert second.born_timestamp == 17


def test_a_batch_is_confirmed_after_its_bytes_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a batch is written readers do not look at it: what they look at is whole."""
    true, seen = append_file.AppendFile.write, []

    def write(file: append_file.AppendFile, position: int, data: bytes | memoryview) -> None:
        seen.append(log.confirmed)
        true(file, position, data)
        seen.append(log.confirmed)

    monkeypatch.setattr(append_file.AppendFile, "write", write)
    with open_log(tmp_path / "log") as log:
        first = log.append(one()).size
        assert log.append_columns(pa.table({"topic": ["a", "b"], "body": [b"1", b"2"]})).status is OK
        assert seen
        assert set(seen) == {first}
        assert log.confirmed > first
