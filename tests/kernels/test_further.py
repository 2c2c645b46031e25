"""The second step of decoding: inner batches, and entries in further queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log.record import CHECK_BODY, FLAG_INNER_BATCH, batch_offset_bound, queue_offset_bound
from reput.kernels import SWITCH, kernels
from reput.kernels.layouts.columns import Columns, StateAt
from reput.log.read.decode import DecodeSettings, RangeDecoder
from support.records import LogBuilder
from support.search import cases
from support.twins import TWINS, as_buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = DecodeSettings(CHECK_BODY, True, (1000,))
both = pytest.mark.parametrize("twin", TWINS)


@dataclass
class Second:
    """The second step's result: (record, base, messages) of batches; (record, topic, queue id, offset) of others."""

    batches: list[tuple[int, int, int]]
    further: list[tuple[int, bytes, int, int]]


def read(twin: str, log: LogBuilder, multi_dispatch: bool = True) -> Second:
    """Both steps over a log, with columns that must grow."""
    patch = pytest.MonkeyPatch()
    patch.setenv(SWITCH, twin)
    kernels.cache_clear()
    data = bytes(log)
    columns = Columns(1, 1, 1)
    decoder = RangeDecoder(as_buffer(data), 0, SETTINGS._replace(multi_dispatch=multi_dispatch), columns)
    decoder.decode(0, len(data))
    decoder.read_further()
    patch.undo()
    kernels.cache_clear()
    assert columns.records == len(log.placed)
    assert len(columns.further_record) == columns.state[StateAt.further]
    queues = columns.further_queue.tolist()
    rows = zip(
        columns.further_record.tolist(),
        [columns.topic(row) for row in queues],
        columns.queue_id[queues].tolist() if queues else [],
        columns.further_offset.tolist(),
        strict=True,
    )
    batches = zip(
        columns.batch_record.tolist(), columns.batch_base.tolist(), columns.batch_messages.tolist(), strict=True
    )
    return Second(list(batches), list(rows))


def dispatch(log: LogBuilder, queues: str, offsets: str, topic: str = "orders", **more: object) -> None:
    """A message for further queues."""
    pair = {"INNER_MULTI_DISPATCH": queues, "INNER_MULTI_QUEUE_OFFSET": offsets}
    log.message(topic, more=pair, **more)  # type: ignore[arg-type]


def batch(log: LogBuilder, base: str | None, messages: str | None, flag: int = FLAG_INNER_BATCH) -> None:
    """An inner batch, or what claims to be one."""
    more = {"INNER_BASE": base, "INNER_NUM": messages}
    log.message("batches", sys_flag=flag, more={name: value for name, value in more.items() if value})


@both
def test_batches(twin: str) -> None:
    """Base and count of a batch are read; without the flag it is no batch, without a property it is one message."""
    log = LogBuilder(4096)
    batch(log, "0", "3")
    batch(log, "+3", "0004")
    batch(log, "7", "1", flag=0)
    batch(log, "7", None)
    batch(log, None, "2")
    assert read(twin, log).batches == [(0, 0, 3), (1, 3, 4), (3, -1, 1), (4, -1, 1)]


@both
@pytest.mark.parametrize("messages", ["0", "-1", "32768", "1x", "x", "+", "-", " 1", "9" * 30, "9" * 6000, "1.5"])
def test_a_bad_count_is_no_batch(twin: str, messages: str) -> None:
    """A count that Java's Short.parseShort refuses, or below 1, gives no entry."""
    log = LogBuilder(1 << 15)
    batch(log, "0", messages)
    assert read(twin, log).batches == [(0, -1, 0)]


@both
@pytest.mark.parametrize(
    ("base", "good"),
    [
        (str(batch_offset_bound(0)), True),
        (str(batch_offset_bound(0) + 1), False),
        ("-1", False),
        ("-0", True),
        (str((1 << 63) - 1), False),
        (str(1 << 63), False),
        ("0" * 4000 + "5", True),
    ],
)
def test_the_base_is_bounded(twin: str, base: str, good: bool) -> None:
    """A base that no log of this length can have come to is not believed."""
    log = LogBuilder(1 << 15)
    batch(log, base, "1")
    assert read(twin, log).batches == [(0, int(base), 1) if good else (0, -1, 0)]


@both
def test_further_queues(twin: str) -> None:
    """Each name gets its number; a light queue has id 0, another one the record's own."""
    log = LogBuilder(4096)
    dispatch(log, "%LMQ%a,%LMQ%b,other", "0,7,2", queue_id=3)
    log.message("orders")
    dispatch(log, "%LMQ%a", "1", queue_id=5)
    found = read(twin, log).further
    assert found == [(0, b"%LMQ%a", 0, 0), (0, b"%LMQ%b", 0, 7), (0, b"other", 3, 2), (2, b"%LMQ%a", 0, 1)]
    assert read(twin, log, multi_dispatch=False).further == []


@both
def test_what_gets_no_further_entry(twin: str) -> None:
    """Retries, system and delayed messages, those without a queue entry, and lists of unlike length."""
    log = LogBuilder(1 << 15)
    for topic in ("%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"):
        dispatch(log, "%LMQ%a", "1", topic)
    dispatch(log, "%LMQ%a", "1", transaction="prepared")
    dispatch(log, "%LMQ%a", "1", transaction="rollback")
    dispatch(log, "%LMQ%a,%LMQ%b", "1")
    dispatch(log, "%LMQ%a", "1,2")
    dispatch(log, ",", ",")
    assert read(twin, log).further == []


@both
def test_single_names_that_get_no_entry(twin: str) -> None:
    """A name that can be no folder, and a text that is no number or out of reach, are passed over; the others count."""
    log = LogBuilder(1 << 15)
    dispatch(log, "a/b,..,,good,%LMQ%" + "x" * 255 + ",%LMQ%c", "1,2,3,4,5,6")
    dispatch(log, "%LMQ%a,%LMQ%b,%LMQ%c,%LMQ%d,,", f"x,-1,{queue_offset_bound(1 << 15)},{'9' * 40},,,")
    assert read(twin, log).further == [(0, b"good", 0, 4), (0, b"%LMQ%c", 0, 6)]


@both
def test_many_further_queues(twin: str) -> None:
    """Entries and queues have room for as many names as properties can hold."""
    log = LogBuilder(1 << 17)
    names = [f"%LMQ%{n}" for n in range(1500)]
    for n in range(3):
        dispatch(log, ",".join(names), ",".join(str(n) for _ in names))
    assert read(twin, log).further == [(n, name.encode(), 0, n) for n in range(3) for name in names]


texts = st.text(st.sampled_from("ab%LMQ,/.0195+- \u8ba2"), max_size=12)
numbers = st.one_of(st.integers(-5, 1 << 65).map(str), texts)
names = st.lists(st.one_of(st.sampled_from(("%LMQ%a", "%LMQ%b", "", "x/y", "plain", "%LMQ%\u8ba2")), texts), max_size=5)


@st.composite
def logs(draw: st.DrawFn) -> Iterator[LogBuilder]:
    """Logs whose messages carry all sorts of values in the four properties."""
    log = LogBuilder(1 << 16)
    for _ in range(draw(st.integers(1, 6))):
        more = {
            "INNER_BASE": draw(numbers),
            "INNER_NUM": draw(numbers),
            "INNER_MULTI_DISPATCH": ",".join(draw(names)),
            "INNER_MULTI_QUEUE_OFFSET": ",".join(draw(st.lists(numbers, max_size=5))),
        }
        topic = draw(st.sampled_from(("orders", "%LMQ%a", "%RETRY%x")))
        flag = draw(st.sampled_from((0, FLAG_INNER_BATCH)))
        log.message(topic, sys_flag=flag, more={name: value for name, value in more.items() if value})
    return log  # type: ignore[return-value]


@given(logs())
@settings(max_examples=cases(150, 1000), deadline=None)
def test_the_twins_say_the_same(log: LogBuilder) -> None:
    """Both twins read the same of any properties."""
    assert read("compiled", log) == read("reference", log)
