"""decode_range: records to columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.java.hashing import index_key_hash, java_string_hash
from reput.formats.log.record import CHECK_BODY, CHECK_NONE, CHECK_PROPERTY, Verdict
from reput.kernels.layouts.columns import (
    HAS_TAG_ITEM,
    IN_INDEX,
    IN_QUEUE,
    INNER_BATCH,
    MULTI_DISPATCH,
    Columns,
    StateAt,
    Stop,
)
from support import golden
from support.records import (
    START_TIME_MS,
    LogBuilder,
    damages,
    hostile_records,
    logs,
    message_properties,
)
from support.search import cases
from support.twins import DELAYS_MS, FULL, GOLDEN_DELAYS_MS, TWINS, Call, Decoded, decode, decode_once

both = pytest.mark.parametrize("twin", TWINS)
checks = st.sampled_from((CHECK_NONE, CHECK_BODY, CHECK_PROPERTY))


def values_of(decoded: Decoded, name: str) -> list[int]:
    """One column's values."""
    values: list[int] = decoded.values[name]
    return values


def items_of(decoded: Decoded, record: int) -> list[int]:
    """The index items of one record."""
    first = values_of(decoded, "first_item")
    return values_of(decoded, "item_hash")[first[record] : first[record + 1]]


def tags_code_of(twin: str, properties: bytes, *, topic: str = "SCHEDULE_TOPIC_XXXX", delays: object = None) -> int:
    """The tags code of one message, stored at START_TIME_MS."""
    log = LogBuilder(1 << 16)
    log.message(topic, properties=properties, store_timestamp=START_TIME_MS)
    call = Call() if delays is None else Call(delays_ms=np.array(delays, dtype=np.int64))
    return values_of(decode(twin, bytes(log), call), "tags_code")[0]


# --- what the columns hold -----------------------------------------------------------------------


@both
def test_columns_of_plain_messages(twin: str) -> None:
    """Place, size, queue, queue offset, tags code and time are what the messages hold."""
    log = LogBuilder(4096, start=4096)
    log.message("orders", queue_id=1, tags="paid")
    log.message("audit", body=b"")
    log.message("orders", queue_id=1, tags="订单")
    log.message("orders", queue_id=0)
    decoded = decode(twin, bytes(log), Call(base=log.start))

    assert values_of(decoded, "position") == [placed.offset for placed in log.placed]
    assert values_of(decoded, "size") == [placed.size for placed in log.placed]
    assert values_of(decoded, "queue") == [0, 1, 0, 2]
    assert values_of(decoded, "queue_offset") == [0, 0, 1, 0]
    assert values_of(decoded, "tags_code") == [java_string_hash("paid"), 0, java_string_hash("订单"), 0]
    assert values_of(decoded, "store_timestamp") == [START_TIME_MS + 10 * n for n in (1, 2, 3, 4)]
    assert values_of(decoded, "queue_id") == [1, 0, 0]
    assert [decoded.columns.topic(row) for row in range(3)] == [b"orders", b"audit", b"orders"]
    assert values_of(decoded, "topic_hash") == [java_string_hash(topic) for topic in ("orders#", "audit#", "orders#")]
    assert decoded.stop is Stop.REACHED_END
    assert decoded.position == len(bytes(log))


@both
@pytest.mark.parametrize("tag_items", [True, False])
def test_items_are_unique_key_keys_and_tag(twin: str, tag_items: bool) -> None:
    """The unique key comes first, then the keys, then, from 5.4.0 on, the tag under its own prefix."""
    log = LogBuilder(4096)
    log.message("orders", unique_key="u", keys=" k1  k2 ", tags="t t")
    log.message("orders", keys="k3")
    log.message("orders")
    decoded = decode(twin, bytes(log), Call(tag_items=tag_items))
    tag = [index_key_hash(b"orders#T#t t")] if tag_items else []

    assert items_of(decoded, 0) == [*(index_key_hash(b"orders#" + key) for key in (b"u", b"k1", b"k2")), *tag]
    assert items_of(decoded, 1) == [index_key_hash(b"orders#k3")]
    assert items_of(decoded, 2) == []
    assert values_of(decoded, "flags")[0] == IN_QUEUE | IN_INDEX | (HAS_TAG_ITEM if tag_items else 0)
    assert values_of(decoded, "flags")[1:] == [IN_QUEUE | IN_INDEX] * 2


@both
@pytest.mark.parametrize("name", ["UNIQ_KEY", "KEYS", "TAGS", "DELAY"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}\x013", "3"),
        ("{}\x013\x02", "3"),
        ("{}\x013\x02{}\x015", "5"),
        ("{}\x013\x02{}\x01\x02", "3"),
        ("{}\x013\x02{}\x01\x02WAIT\x01true", "3"),
        ("{}\x013\x02{}\x01", "3"),
        ("{}\x013\x02{}\x02", "3"),
        ("{}\x013\x02\x01{}\x015\x02", "3"),
        ("{}X\x015\x02{}\x013\x02X{}\x015", "3"),
        ("{}\x02\x015", ""),
        ("{}\x01\x02", ""),
        ("{}\x01", ""),
        ("{}", ""),
    ],
)
def test_which_value_counts(twin: str, name: str, text: str, value: str) -> None:
    """The last value of a name counts; a piece without a value, or of another name, does not.

    The properties are the buffer's last bytes, where a kernel may not look at a whole word.
    """
    log = LogBuilder(4096)
    log.message("SCHEDULE_TOPIC_XXXX", properties=text.replace("{}", name).encode(), store_timestamp=0)
    decoded = decode(twin, bytes(log))
    key = {"UNIQ_KEY": value, "KEYS": value, "TAGS": value and f"T#{value}"}.get(name)
    code = {"TAGS": java_string_hash(value), "DELAY": int(DELAYS_MS[int(value or 0)]) if value else 0}.get(name, 0)

    assert items_of(decoded, 0) == ([index_key_hash(f"SCHEDULE_TOPIC_XXXX#{key}".encode())] if key else [])
    assert values_of(decoded, "tags_code") == [code]


@both
def test_transactions_decide_where_a_message_goes(twin: str) -> None:
    """Plain and committed messages get an entry, all but rolled-back ones get items."""
    log = LogBuilder(4096)
    for transaction in ("", "prepared", "commit", "rollback"):
        log.message("orders", keys="k", tags="t", transaction=transaction)  # type: ignore[arg-type]
    decoded = decode(twin, bytes(log))
    indexed = IN_INDEX | HAS_TAG_ITEM

    assert values_of(decoded, "flags") == [IN_QUEUE | indexed, indexed, IN_QUEUE | indexed, 0]
    assert [len(items_of(decoded, record)) for record in range(4)] == [2, 2, 2, 0]
    assert decoded.state(StateAt.prepared) == 1
    assert decoded.state(StateAt.rolled_back) == 1


@both
def test_messages_with_more_entries_are_counted(twin: str) -> None:
    """Inner batches and multi-dispatch messages are flagged and counted, the first of each kind is remembered."""
    log = LogBuilder(4096)
    log.message("orders", more={"INNER_MULTI_DISPATCH": "a"})
    log.message("orders", sys_flag=0x80)
    log.message("orders", more={"INNER_MULTI_DISPATCH": "a,b", "INNER_MULTI_QUEUE_OFFSET": "1,2"})
    log.message("orders", sys_flag=0x80, more={"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "3"})
    decoded = decode(twin, bytes(log))

    assert decoded.state(StateAt.inner_batches) == 2
    assert decoded.state(StateAt.first_inner_batch) == log.placed[1].offset
    assert decoded.state(StateAt.multi_dispatches) == 2
    assert decoded.state(StateAt.first_multi_dispatch) == log.placed[2].offset
    more = [flags & (INNER_BATCH | MULTI_DISPATCH) for flags in values_of(decoded, "flags")]
    assert more == [0, INNER_BATCH, MULTI_DISPATCH, INNER_BATCH | MULTI_DISPATCH]


@both
def test_times_that_run_backwards_are_counted(twin: str) -> None:
    """A store time earlier than the one before is counted; first, last and latest time are kept."""
    log = LogBuilder(4096)
    for time in (500, 700, 600, 600, 550):
        log.message("orders", store_timestamp=time)
    decoded = decode(twin, bytes(log))

    assert decoded.state(StateAt.time_regressions) == 2
    assert decoded.state(StateAt.first_time_regression) == log.placed[2].offset
    assert decoded.state(StateAt.first_store_timestamp) == 500
    assert decoded.state(StateAt.last_store_timestamp) == 550
    assert decoded.state(StateAt.max_store_timestamp) == 700


@both
@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("1", 1000),
        ("3", 10_000),
        ("15", 1_200_000),
        ("16", 1_200_000),
        ("2147483647", 1_200_000),
        ("007", 180_000),
        ("00000000000002", 5000),
        ("+2", 5000),
        ("0", None),
        ("-1", None),
        ("-2147483648", None),
        ("2147483648", None),
        ("99999999999999999999999", None),
        ("4294967297", None),
        ("+", None),
        ("-", None),
        ("1 ", None),
        ("x", None),
    ],
)
def test_delay_levels(twin: str, text: str, delay_ms: int | None) -> None:
    """A delayed message's tags code is its delivery time; a level above the last one is the last one."""
    properties = message_properties(tags="t", more={"DELAY": text})
    plain = java_string_hash("t")

    assert tags_code_of(twin, properties) == (plain if delay_ms is None else START_TIME_MS + delay_ms)
    assert tags_code_of(twin, properties, topic="SCHEDULE_TOPIC_XXX") == plain


@both
@pytest.mark.parametrize("delays", [(-1,), ()])
def test_without_levels_nothing_is_delayed(twin: str, delays: tuple[int, ...]) -> None:
    """A table without levels makes DELAY mean nothing, and the tags code is the tag's, as the peer has it."""
    properties = message_properties(tags="t", delay=1)

    assert tags_code_of(twin, properties, delays=delays) == java_string_hash("t")


@both
def test_delivery_times_wrap_as_java_longs_do(twin: str) -> None:
    """A hostile store time does not raise: the sum wraps to 64 bits."""
    log = LogBuilder(4096)
    log.message("SCHEDULE_TOPIC_XXXX", delay=1, store_timestamp=(1 << 63) - 1)

    assert values_of(decode(twin, bytes(log)), "tags_code") == [-(1 << 63) + 999]


@both
def test_hash_of_the_smallest_int_is_zero(twin: str) -> None:
    """A key whose hash has no positive absolute value is kept under 0, as in the peer."""
    assert java_string_hash("t#2rdmwpq") == -(1 << 31)
    log = LogBuilder(4096)
    log.message("t", keys="2rdmwpq")

    assert items_of(decode(twin, bytes(log)), 0) == [0]


# --- where it stops ------------------------------------------------------------------------------


@both
def test_stops_at_the_blank_record(twin: str) -> None:
    """A blank record ends the file: the position is the file's end."""
    log = LogBuilder(4096)
    log.message("orders")
    log.roll()
    decoded = decode(twin, bytes(log))

    assert (decoded.stop, decoded.verdict, decoded.position) == (Stop.FILE_END, Verdict.BLANK, 4096)


@both
def test_stops_before_what_is_no_record(twin: str) -> None:
    """Bytes that are no record stop the call at their place, and the verdict says what they are."""
    log = LogBuilder(4096)
    end = log.message("orders").size
    for garbage, verdict in (
        (bytes(100), Verdict.ZERO),
        (b"x" * 100, Verdict.BAD_MAGIC),
        (b"x", Verdict.TRUNCATED),
    ):
        decoded = decode(twin, bytes(log) + garbage)
        assert (decoded.stop, decoded.verdict, decoded.position) == (Stop.NOT_A_RECORD, verdict, end)
        assert decoded.columns.records == 1


@both
def test_a_record_that_starts_before_the_end_belongs_to_the_range(twin: str) -> None:
    """The last record may reach past `end`; one that starts at `end` is the next range's."""
    log = LogBuilder(4096)
    first, second = log.message("orders"), log.message("orders")
    data = bytes(log)

    for end, position in ((1, first.size), (first.size, first.size), (first.size + 1, len(data)), (0, 0)):
        decoded = decode(twin, data, Call(end=end))
        assert (decoded.stop, decoded.position) == (Stop.REACHED_END, position)
    assert second.offset == first.size


@both
def test_an_empty_range(twin: str) -> None:
    """Nothing to decode is no error."""
    decoded = decode(twin, b"", Call())

    assert (decoded.stop, decoded.columns.records, decoded.position) == (Stop.REACHED_END, 0, 0)


@both
@pytest.mark.parametrize("capacity", [0, 1, 2, 5])
def test_full_columns_stop_and_go_on(twin: str, capacity: int) -> None:
    """Full columns stop before the record that does not fit; grown, they end up the same."""
    log = LogBuilder(1 << 16)
    for number in range(40):
        log.message(f"topic-{number % 11}" + "x" * 100, queue_id=number % 3, unique_key="u", keys="a b c", tags="t")
    columns = Columns(capacity, capacity, capacity)
    decoded = decode(twin, bytes(log), columns=columns)

    assert decoded == Decoded(decode(twin, bytes(log)).values, decoded.stops, columns)
    assert {Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL} <= set(decoded.stops)
    assert decoded.columns.records == 40
    assert decoded.columns.queues == 33


@both
def test_a_full_stop_leaves_whole_records(twin: str) -> None:
    """Full items stop the call before a record, and nothing of that record is counted."""
    log = LogBuilder(4096)
    log.message("orders", keys="a b", transaction="prepared", sys_flag=0x80)
    log.message("orders", keys="a b c d", transaction="prepared", sys_flag=0x80)
    columns = Columns(8, 4, 4)
    stop = decode_once(twin, bytes(log), Call(), columns)

    assert stop is Stop.ITEMS_FULL
    assert (columns.records, columns.items) == (1, 2)
    assert columns.state[StateAt.position] == log.placed[1].offset
    assert columns.state[StateAt.prepared] == columns.state[StateAt.inner_batches] == 1


@both
@pytest.mark.parametrize(("size", "stop"), [(3, Stop.REACHED_END), (4, Stop.QUEUES_FULL)])
def test_names_are_filled_to_the_last_byte(twin: str, size: int, stop: Stop) -> None:
    """Topics may fill the room for names exactly; one byte more and the table of queues is full."""
    columns = Columns(8, 64, 8)
    assert len(columns.names) == 3 * 255 + 3
    log = LogBuilder(4096)
    for letter in "abc":
        log.message(letter * 255)
    log.message("d" * size)

    assert decode_once(twin, bytes(log), Call(), columns) is stop


@both
def test_a_bad_topic_is_told_even_when_full(twin: str) -> None:
    """A record whose topic cannot be a folder's name is no record, however full the columns are."""
    log = LogBuilder(4096)
    log.message("../escape")
    columns = Columns(0, 0, 1)

    assert decode_once(twin, bytes(log), Call(), columns) is Stop.NOT_A_RECORD
    assert columns.state[StateAt.verdict] == Verdict.BAD_TOPIC
    assert columns.queues == 0


@both
def test_columns_can_be_used_again(twin: str) -> None:
    """Cleared columns take another range as new ones do."""
    columns = Columns(64, 64, 8)
    first, second = LogBuilder(4096), LogBuilder(4096)
    first.message("orders", keys="a")
    second.message("audit", queue_id=3, keys="b c")
    decode(twin, bytes(first), columns=columns)
    columns.clear()

    assert decode(twin, bytes(second), columns=columns).values == decode(twin, bytes(second)).values


# --- both twins say the same ---------------------------------------------------------------------


def same(data: bytes, call: Call, capacity: tuple[int, int, int] = (64, 64, 8)) -> Decoded:
    """Decode with both twins, from columns of this capacity; they must say the same, stop by stop."""
    reference = decode("reference", data, call, Columns(*capacity))
    compiled = decode("compiled", data, call, Columns(*capacity))
    assert compiled == reference
    return reference


@settings(max_examples=cases(150, 1000), deadline=None)
@given(st.data(), logs())
def test_twins_agree_on_damaged_logs(data: st.DataObject, log: LogBuilder) -> None:
    """On damaged logs both give equal columns, verdicts and positions, whatever the capacity."""
    damaged = data.draw(damages(log))
    crc_check, tag_items = data.draw(checks), data.draw(st.booleans())
    delays = data.draw(st.sampled_from((DELAYS_MS, DELAYS_MS[:3], DELAYS_MS[:1])))
    capacity = (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3)))
    for begin in {0, *(placed.offset - log.start for placed in log.placed)}:
        end = data.draw(st.integers(begin, max(begin, len(damaged))))
        limit = data.draw(st.sampled_from((len(damaged), min(end, len(damaged)))))
        same(damaged, Call(log.start, begin, end, limit, crc_check, tag_items, delays), capacity)


@settings(max_examples=60, deadline=None)
@given(st.lists(hostile_records(), max_size=8), checks)
def test_twins_agree_on_impossible_values(records: list, crc_check: int) -> None:  # type: ignore[type-arg]
    """On records with impossible topics, queue ids and queue offsets both stop at the same one."""
    log = LogBuilder(1 << 20, append_crc=crc_check == CHECK_PROPERTY)
    for record in records:
        log.record(record)
    for placed in log.placed:
        same(bytes(log), Call(begin=placed.offset, crc_check=crc_check))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.sampled_from((b"KEYS\x01", b"TAGS\x01", b"UNIQ_KEY\x01", b"DELAY\x01", b"")))
def test_twins_agree_on_any_properties(properties: bytes, name: bytes) -> None:
    """Any bytes as properties, or as the value of one looked at, give the same items and tags code."""
    log = LogBuilder(1 << 16)
    log.message("orders", properties=name + properties)
    log.message("SCHEDULE_TOPIC_XXXX", properties=name + properties)

    assert same(bytes(log), Call()).columns.records == 2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=40), st.integers(0, 2)), max_size=12))
def test_twins_agree_on_texts_of_every_language(texts: list[tuple[str, int]]) -> None:
    """Topics, tags and keys in any script give the same hashes and queues."""
    log = LogBuilder(1 << 16)
    for text, queue_id in texts:
        clean = text.replace("\0", "").replace("\1", "").replace("\2", "").replace("/", "")
        topic = clean.encode()[:100].decode(errors="ignore")
        log.message(topic if topic.strip(".") else "t", queue_id=queue_id, tags=clean, keys=clean, unique_key=clean)

    assert same(bytes(log), Call(), (1, 1, 1)).columns.records == len(texts)


@settings(max_examples=60, deadline=None)
@given(st.data(), logs(min_records=2))
def test_split_anywhere_it_is_the_same_log(data: st.DataObject, log: LogBuilder) -> None:
    """A range cut in two at any byte decodes to the same columns, begun again where the first part ended."""
    whole = next(log.files())[1]
    cut = data.draw(st.integers(0, log.end - log.start))
    for twin in TWINS:
        columns = Columns(64, 256, 16)
        parts = decode(twin, whole, Call(log.start, end=cut), columns)
        if parts.position < len(whole):
            parts = decode(twin, whole, Call(log.start, parts.position), columns)
        assert parts.values == decode(twin, whole, Call(log.start)).values


@pytest.mark.golden
@pytest.mark.parametrize("store", golden.STORES)
def test_twins_agree_on_golden_logs(store: str) -> None:
    """On the logs that RocketMQ wrote both give equal columns, and see the same oddities."""
    records = batches = 0
    for start, data in golden.log_files(golden.shared(store)):
        decoded = same(data, Call(start, delays_ms=GOLDEN_DELAYS_MS))
        assert decoded.stop not in FULL
        assert decoded.verdict in (Verdict.BLANK, Verdict.ZERO)
        records += decoded.columns.records
        batches += decoded.state(StateAt.inner_batches)

    assert records == len(golden.records(golden.shared(store)))
    assert bool(batches) == (store == "batch")


@pytest.mark.golden
@pytest.mark.parametrize("seed", range(4))
def test_twins_agree_on_damaged_golden_logs(seed: int) -> None:
    """Golden log files with bytes flipped here and there stop both twins at the same places alike."""
    chance = np.random.default_rng(seed)
    start, data = next(golden.log_files(golden.shared("basic")))
    damaged = np.frombuffer(data, dtype=np.uint8).copy()
    places = chance.integers(0, len(data), 400)
    damaged[places] ^= chance.integers(1, 256, 400).astype(np.uint8)
    hurt = damaged.tobytes()
    for position in values_of(decode("reference", data, Call(start)), "position")[::7]:
        same(
            hurt,
            Call(
                start,
                position - start,
                position - start + 5000,
                crc_check=seed % 2,
                delays_ms=GOLDEN_DELAYS_MS,
            ),
        )
