"""Arguments of the public calls: an old name works for one version, and a time is a datetime or milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.arguments import before, since_ms, until_ms
from reput.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with messages of two topics."""
    with reput.MessageStore.open(tmp_path / "store", create=True) as store:
        for number in range(6):
            topic = "orders" if number % 2 else "clicks"
            store.put_message(reput.Message(topic, b"%d" % number, keys=f"k{number}", born_timestamp=number))
    return tmp_path / "store"


def bodies(path: Path, **arguments: Any) -> list[bytes]:
    """The bodies that a scan gives."""
    found: list[bytes] = reput.scan(path, columns="body", **arguments).read_all()["body"].to_pylist()
    return found


def last_ms(path: Path) -> int:
    """The store time of the last message."""
    with reput.MessageStore.open(path, read_only=True) as store:
        return store.store_time("orders", 0, 2)


@pytest.mark.parametrize(
    ("old", "present"),
    [
        ({"topic": "orders"}, {"topics": "orders"}),
        ({"key": ["k1", "k2"]}, {"keys": ["k1", "k2"]}),
        ({"start_time": 1 << 60}, {"since": 1 << 60}),
        ({"end_time": None}, {"until": None}),
    ],
    ids=str,
)
def test_old_names_of_a_scan_work(path: Path, old: dict[str, Any], present: dict[str, Any]) -> None:
    """An old name gives the answer of the present one, and a DeprecationWarning at the caller that says which it is."""
    with pytest.warns(DeprecationWarning, match=f"is now '{next(iter(present))}'") as warned:
        found = bodies(path, **old)
    assert warned[0].filename == __file__
    assert found == bodies(path, **present)


def test_end_time_leaves_out_what_until_has(path: Path) -> None:
    """`end_time` was an exclusive bound, and `until` is an inclusive one."""
    last = last_ms(path)
    assert b"5" in bodies(path, until=last)
    with pytest.warns(DeprecationWarning, match="until"):
        assert b"5" not in bodies(path, end_time=last)
    with pytest.warns(DeprecationWarning, match="until"):
        assert b"5" in bodies(path, end_time=datetime.fromtimestamp(last / 1000 + 0.0005, UTC))


def test_old_names_of_a_store_s_reads_work(path: Path) -> None:
    """`begin_ms` and `end_ms` bound messages and look-ups by key as `since` and `until` do."""
    last = last_ms(path)
    with reput.MessageStore.open(path, read_only=True) as store:
        with pytest.warns(DeprecationWarning, match=r"^MessageStore\.messages\(\): .*'begin_ms' is now 'since'"):
            assert list(store.messages("orders", begin_ms=last + 1)) == []  # type: ignore[call-arg]
        with pytest.warns(DeprecationWarning, match="'end_ms' is now 'until'") as warned:
            assert len(store.query_message("orders", "k1", end_ms=last)) == 1
        assert warned[0].filename == __file__
        assert len(store.query_message("orders", "k1", until=last, since=0)) == 1
        assert len(store.query_message("orders", "k1", since=last + 1)) == 0
        with pytest.raises(TypeError, match="argument 'end'"):
            store.query_message("orders", "k1", end=last)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'begin_ms', its old name: give 'since'"):
            store.query_message("orders", "k1", since=1, begin_ms=1)


def test_old_names_of_following_work(path: Path) -> None:
    """The old names of arguments, and a `follow` that chooses Spark, work as the present ones do."""
    seen: list[int] = []
    old: Any = {"max_batch_mb": 0.0005, "checkpoint": None, "tell": lambda progress: seen.append(progress.batches)}
    with pytest.warns(DeprecationWarning, match="the next version drops the old name") as warned:
        reput.follow(path, spark=False, until_caught_up=True, **old).wait()
    assert len(warned) == 3
    assert seen
    with (
        pytest.warns(DeprecationWarning, match="give follow=True, spark=False"),
        reput.MessageStore.open(path, follow="loop") as store,  # type: ignore[arg-type]
    ):
        assert store.is_followed


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda path: reput.follow(path, spark=False, max_batch_mb=-3), "max_batch_mb=-3"),
        (lambda path: reput.follow(path, spark=False, max_batch_mb="x"), "max_batch_mb='x'"),
        (lambda path: reput.scan(path, end_time="now"), "end_time='now'"),
    ],
)
def test_old_names_refuse_what_they_refused(path: Path, call: Callable[[Path], object], named: str) -> None:
    """A value that the old argument refused is a ConfigError that names this argument."""
    with pytest.raises(reput.ConfigError, match=named), pytest.warns(DeprecationWarning, match="old name"):
        call(path)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: reput.scan(path, topics="orders", topic="orders"),
        lambda path: reput.follow(path, on_progress=print, tell=print),
    ],
)
def test_both_names_are_refused(path: Path, call: Callable[[Path], object]) -> None:
    """A call with the old and the present name of one argument is a TypeError."""
    with pytest.raises(TypeError, match="its old name"):
        call(path)


def test_times() -> None:
    """A bound takes a datetime or milliseconds; one between two milliseconds leaves out the one outside."""
    second = datetime(2026, 7, 30, tzinfo=UTC)
    ms = int(second.timestamp() * 1000)
    late = second + timedelta(microseconds=500)
    assert (since_ms(second), until_ms(second), since_ms(late), until_ms(late)) == (ms, ms, ms + 1, ms)
    assert (before(second), before(late), before(ms), before(None)) == (ms - 1, ms, ms - 1, None)
    for wrong in ("now", -1, 1.5, True, 1 << 63):
        with pytest.raises(ConfigError, match="since="):
            since_ms(wrong)  # type: ignore[arg-type]
