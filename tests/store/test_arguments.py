"""Arguments that cannot be: an error names the argument, says what was given, and what to give; nothing is changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import reput
from reput.errors import ConfigError
from reput.log.encode.message import PutStatus
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with fifty messages in one queue."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 50, keys="k")
    return tmp_path / "s"


@pytest.fixture
def store(path: Path) -> Iterator[reput.MessageStore]:
    """The same, open; after the test nothing was put, and it is sound."""
    with reput.MessageStore.open(path, CONFIG) as store:
        # Twice: the second pull is one kernel call.
        assert len(bodies(store) + bodies(store)) == 100
        yield store
        put(store, 1)
        assert len(bodies(store)) == 51
        assert store.background_error is None
        assert "reput-store" in {thread.name for thread in threading.enumerate()}
    assert_sound(path, CONFIG)


CALLS: dict[str, Callable[[Any], object]] = {
    "message {}": lambda store: store.put_message({}),
    "message None": lambda store: store.put_message_async(None),
    "messages 5": lambda store: store.put_messages(5),
    "messages Message(": lambda store: store.put_messages(reput.Message("t", b"x")),
    "message 'x'": lambda store: store.put_messages(["x"]),
    "queue_id '1'": lambda store: store.put_messages([reput.Message("t", b"x")], "1"),
    "topic b't'": lambda store: store.get_message(b"t", 0, 0),
    "queue '0'": lambda store: store.get_message("t", "0", 0),
    "queue -1": lambda store: store.get_message("t", -1, 0),
    "offset 1.5": lambda store: store.get_message("t", 0, 1.5),
    "offset 2.0": lambda store: store.get_message("t", 0, 2.0),
    "offset None": lambda store: store.get_message("t", 0, None),
    "max_messages '5'": lambda store: store.get_message("t", 0, 0, "5"),
    "max_messages -1: give 1 or more": lambda store: store.get_message("t", 0, 0, -1),
    "max_bytes 'x'": lambda store: store.get_message("t", 0, 0, 5, None, "x"),
    "max_bytes 1.5": lambda store: store.get_message("t", 0, 0, 5, None, 1.5),
    "max_messages 5.5": lambda store: store.get_message("t", 0, 0, 5.5),
    "filter 5": lambda store: store.get_message("t", 0, 0, 5, 5),
    "filter ['paid']": lambda store: store.get_message("t", 0, 0, 5, ["paid"]),
    "boundary 'lowest'": lambda store: store.offset_by_time("t", 0, 1, "lowest"),
    "timestamp_ms 'now'": lambda store: store.offset_by_time("t", 0, "now"),
    "offset '1'": lambda store: store.store_time("t", 0, "1"),
    "begin 'a'": lambda store: store.estimate("t", 0, "a", 5),
    "key b'k'": lambda store: store.query_message("t", b"k"),
    "since='x'": lambda store: store.query_message("t", "k", since="x"),
    "before 'x'": lambda store: store.query_message("t", "k", before="x"),
    "until='x'": lambda store: store.messages("t", until="x"),
    "physical_offset '1'": lambda store: store.message_at("1"),
    "topic 5": lambda store: store.queues(5),
    "queue offset 5.5": lambda store: store.commit_offset("g", "t", 0, 5.5),
    "queue id '0'": lambda store: store.commit_offset("g", "t", "0", 5),
    "group b'g'": lambda store: store.commit_offset(b"g", "t", 0, 5),
    "offset '5'": lambda store: store.wait("t", 0, "5", 0.01),
    "arrived None": lambda store: store.on_arrival("t", 0, 500, None),
    "spark='local'": lambda store: store.reput("local"),
    "spark=True": lambda store: store.reput(True),
    "master=5": lambda store: store.reput(master=5),
    "master='local[2]' and spark=False": lambda store: store.reput(False, master="local[2]"),
}


@pytest.mark.parametrize("named", CALLS)
def test_calls_of_a_store_name_the_argument(named: str, store: reput.MessageStore) -> None:
    """A wrong argument is a ConfigError that begins with its name; the store and its threads continue."""
    with pytest.raises(ConfigError) as raised:
        CALLS[named](store)
    assert named in str(raised.value)


def test_a_count_below_zero_gave_a_message(tmp_path: Path) -> None:
    """A pull refuses a count below 0, of indexed messages and of others; 0 gives one message, as it always did."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 5)
        for _ in range(2):
            with pytest.raises(ConfigError, match="max_messages -1: give 1 or more"):
                store.get_message("t", 0, 0, -1)
            assert len(store.get_message("t", 0, 0, 0)) == 1
            store.reput(spark=False)


@pytest.mark.parametrize("count", ["5", 5.5, 5.0])
def test_the_quick_path_takes_a_count_that_is_no_number(count: Any, tmp_path: Path) -> None:
    """The compiled pull of indexed messages refuses digits and fractions as the general one does."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 50)
        store.reput(spark=False)
        for _ in range(3):
            assert len(store.get_message("t", 0, 0, 5)) == 5
        with pytest.raises(ConfigError, match=r"max_messages .*whole number"):
            store.get_message("t", 0, 0, count)
    assert_sound(tmp_path / "s", CONFIG)


VALUES: dict[str, dict[str, Any]] = {
    "topic b't'": {"topic": b"t"},
    "topic ['t']": {"topic": ["t"]},
    "body": {"body": "text"},
    "flag '1'": {"flag": "1"},
    "sys_flag '1'": {"sys_flag": "1"},
    "born_timestamp 'now'": {"born_timestamp": "now"},
    "born_host '1.2.3.4'": {"born_host": "1.2.3.4"},
    "properties ['a']": {"properties": ["a"]},
}


@pytest.mark.parametrize("named", VALUES)
def test_a_message_with_wrong_values_is_refused_with_the_name(named: str, store: reput.MessageStore) -> None:
    """A message with wrong values is answered as others that cannot be stored: MESSAGE_ILLEGAL, and why."""
    message = reput.Message(**{"topic": "t", "body": b"x", **VALUES[named]})
    for result in (store.put_message(message), store.put_messages([message])):
        assert result.status is PutStatus.MESSAGE_ILLEGAL
        assert named in result.reason


JOBS: dict[str, Callable[[Path], object]] = {
    "spark='local'": lambda path: reput.check(path, spark="local"),  # type: ignore[arg-type]
    "spark='local[2]'": lambda path: reput.rebuild(path, spark="local[2]"),  # type: ignore[arg-type]
    "spark='loop'": lambda path: reput.follow(path, spark="loop"),  # type: ignore[arg-type]
    "follow='Loop'": lambda path: reput.MessageStore.open(path, CONFIG, follow="Loop"),  # type: ignore[arg-type]
    "config={'a': 1}": lambda path: reput.MessageStore.open(path, {"a": 1}),  # type: ignore[arg-type]
    "path=None": lambda _: reput.MessageStore.open(None),  # type: ignore[arg-type]
    "topics='orders'": lambda path: reput.rebuild(path, spark=False, topics="orders"),
    "split_mb='x'": lambda path: reput.rebuild(path, spark=False, split_mb="x"),  # type: ignore[arg-type]
    "split_mb=0": lambda path: reput.check(path, spark=False, split_mb=0),
    "split_mb=nan": lambda path: reput.check(path, spark=False, split_mb=float("nan")),
    "split_mb=True": lambda path: reput.convert(path, to="both", spark=False, split_mb=True),
    "max_bytes_per_trigger=-3": lambda path: reput.follow(path, spark=False, max_bytes_per_trigger=-3),
    "topics=[5]": lambda path: reput.rebuild(path, spark=False, topics=[5]),  # type: ignore[list-item]
    "columns=5": lambda path: reput.scan(path, columns=5),  # type: ignore[arg-type]
    "topics=5": lambda path: reput.scan(path, topics=5),  # type: ignore[arg-type]
    "queue_id='1'": lambda path: reput.scan(path, queue_id="1"),  # type: ignore[arg-type]
    "since='now'": lambda path: reput.scan(path, since="now"),  # type: ignore[arg-type]
    "tags=['a']": lambda path: reput.scan(path, tags=["a"]),  # type: ignore[arg-type]
    "limits=5": lambda path: reput.MessageStore.open(path, limits=5),  # type: ignore[arg-type]
    "delete_expired='x'": lambda path: reput.MessageStore.open(path, delete_expired="x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("named", JOBS)
def test_jobs_name_the_argument_before_anything_starts(named: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is not started, and the store is not opened, for a wrong argument."""
    monkeypatch.setattr("reput.pipeline.spark.session.start_context", lambda *_: pytest.fail("Spark was started"))
    before = sorted(path.rglob("*"))
    with pytest.raises(ConfigError) as raised:
        JOBS[named](path)
    assert str(raised.value).startswith(f"{named}: give ")
    assert sorted(path.rglob("*")) == before


def test_numbers_of_numpy_are_numbers(store: reput.MessageStore) -> None:
    """A whole number counts as one, whichever library made it."""
    zero, five = np.int64(0), np.int32(5)
    for _ in range(3):
        assert len(store.get_message("t", int(zero), zero, five)) == 5  # type: ignore[arg-type]
    assert store.message_at(zero) is not None  # type: ignore[arg-type]


def test_reports_have_a_short_repr(path: Path) -> None:
    """The report of a rebuild and of a check are shown in a line, whatever they list."""
    rebuilt, checked = reput.rebuild(path, spark=False, config=CONFIG), reput.check(path, spark=False, config=CONFIG)
    rebuilt.notes += ["n" * 1000]
    checked.notes += ["n" * 1000]
    assert repr(checked).startswith(f"CheckReport('{path}', sound, ")
    assert repr(rebuilt).startswith(f"RebuildReport('{path}', ")
    assert max(len(repr(one)) - len(str(path)) for one in (rebuilt, checked)) < 150


def test_large_results_have_a_short_repr(store: reput.MessageStore) -> None:
    """A result, and a message with a large body, are shown in a line."""
    message = reput.Message("t", b"x" * 100_000, keys=["k" * 1000] * 3)
    many = store.put_messages([reput.Message("other", b"x")] * 500)
    assert "500 messages" in repr(many)
    shown = [message, many, store.get_message("t", 0, 0), store.query_message("t", "k"), store.message_at(0)]
    assert max(len(repr(one)) for one in shown) < 300


def test_an_unknown_argument_names_the_right_one(path: Path) -> None:
    """A mistyped argument is a TypeError, as in Python, and says what the argument is called."""
    with pytest.raises(TypeError, match=r"MessageStore\.open\(\) has no argument 'readonly'\. Near it: read_only$"):
        reput.MessageStore.open(path, readonly=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"has no argument 'mode'\. There are: path, config, read_only"):
        reput.MessageStore.open(path, mode="r")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"check\(\) has no argument 'spit_mb'\. Near it: split_mb$"):
        reput.check(path, spit_mb=5)  # type: ignore[call-arg]


def test_a_store_says_what_it_is(path: Path) -> None:
    """`repr` of a store is short: path, mode, topics and the log's ends."""
    with reput.MessageStore.open(path, CONFIG) as store:
        end = store.put_message(reput.Message("other", b"x")).end_offset
        assert repr(store) == f"<reput.MessageStore '{path}', open to write, topics 2, log 0 to {end}>"
    assert repr(store) == f"<reput.MessageStore '{path}', closed>"
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        assert repr(store) == f"<reput.MessageStore '{path}', read-only, topics 2, log 0 to {end}>"
