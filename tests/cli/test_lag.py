"""`reput progress` as people and programs call it."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.cli.progress import command as lag
from reput.cli.progress.command import QueueLag
from reput.cli.shared.output import duration_text
from reput.config import StoreConfig
from reput.errors import ConfigError, StoreLockedError
from reput.formats import paths
from reput.texts import time_text
from support import golden, stores
from support.checked import assert_sound

SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16)


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["progress", *map(str, arguments)], standalone_mode=False)


def groups(*arguments: object) -> dict[str, dict[str, Any]]:
    """The groups that a call reports, by name."""
    done = call(*arguments, "--json")
    assert done.exception is None, done.exception
    return {group["group"]: group for group in json.loads(done.stdout)["groups"]}


def changes(*arguments: object) -> list[tuple[str, str, int, int | None, int | None]]:
    """The changes that a call reports."""
    done = call(*arguments, "--json")
    assert done.exception is None, done.exception
    reported = json.loads(done.stdout)["changes"]
    return [(one["group"], one["topic"], one["queue_id"], one["before"], one["after"]) for one in reported]


def offsets(path: Path, group: str, topic: str) -> dict[int, int]:
    """A group's offsets in the store's file."""
    with reput.MessageStore.open(path, read_only=True) as store:
        return store.progress.query_all(group, topic)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten messages each in queues 0 to 2 of `orders`, three in `clicks`, and two groups on their way."""
    store = reput.MessageStore.open(tmp_path / "store", SMALL, create=True)
    for number in range(30):
        store.put_message(reput.Message("orders", str(number).encode()), number % 3)
    for _ in range(3):
        store.put_message(reput.Message("clicks", b"c"))
    store.commit_offset("billing", "orders", 0, 4)
    store.commit_offset("billing", "orders", 1, 10)
    store.commit_offset("audit", "orders", 0, 0)
    store.commit_offset("audit", "clicks", 0, 2)
    store.close()
    return tmp_path / "store"


# --- showing --------------------------------------------------------------------------------------


def test_lag_in_messages_and_in_time(path: Path) -> None:
    """Each queue shows its unread messages, and the time from the next one to the last; groups have totals."""
    before = stores.digest(path)
    billing = groups(path)["billing"]
    assert stores.digest(path) == before
    first, second, third = billing["queues"]
    with reput.MessageStore.open(path, read_only=True) as store:
        times = [message.store_timestamp for message in store.get_message("orders", 0, 0)]
    assert (first["lag"], first["lag_ms"], first["next_store_timestamp"]) == (6, times[-1] - times[4], times[4])
    assert (second["lag"], second["lag_ms"], second["next_store_timestamp"]) == (0, 0, None)
    assert (third["offset"], third["lag"], third["max_offset"]) == (None, None, 10)
    assert (billing["lag"], billing["lag_ms"], billing["queues_without_offset"]) == (6, first["lag_ms"], 1)
    assert billing["next_store_timestamp"] == times[4]


def test_group_topic_and_queue_choose(path: Path) -> None:
    """-g, -t and -q choose; a topic that nobody reads is said, an unknown name is an error with what is near."""
    assert set(groups(path)) == {"audit", "billing"}
    assert [queue["topic"] for queue in groups(path, "-g", "audit", "-t", "clicks")["audit"]["queues"]] == ["clicks"]
    assert [queue["queue_id"] for queue in groups(path, "-g", "billing", "-q", 1)["billing"]["queues"]] == [1]
    assert "no group has progress here" in call(path, "-g", "billing", "-t", "clicks").stderr
    for arguments, reported in ((("-g", "biling"), "Near it: billing"), (("-t", "click"), "Near it: clicks")):
        error = call(path, *arguments).exception
        assert isinstance(error, ConfigError)
        assert reported in str(error)


def test_text_has_queues_and_totals(path: Path) -> None:
    """Text is a table of the queues and one of the groups."""
    lines = call(path, "-g", "billing").stdout.splitlines()
    assert lines[2].split("\t")[:6] == ["billing", "orders", "0", "10", "4", "6"]
    assert lines[4].split("\t")[:7] == ["billing", "orders", "2", "10", "-", "-", "-"]
    assert lines[-1].split("\t")[:3] == ["billing", "3", "6"]


def test_odd_offsets_are_said(path: Path) -> None:
    """An offset past a queue's end, and progress in a queue that does not exist, are reported."""
    with reput.MessageStore.open(path, create=True) as store:
        store.commit_offset("odd", "orders", 0, 99)
        store.commit_offset("odd", "gone", 3, 7)
    done = call(path, "-g", "odd", "--json")
    assert "odd, orders/0: offset 99 is past the queue's end, 10" in done.stderr
    assert "odd, gone/3: this queue is not in the store" in done.stderr
    assert json.loads(done.stdout)["groups"][0]["lag"] == 0


def test_no_progress_at_all(tmp_path: Path) -> None:
    """A store that nobody reads says so."""
    reput.MessageStore.open(tmp_path, SMALL, create=True).close()
    assert "no group has any progress in this store" in call(tmp_path).stderr
    assert call(tmp_path, "--json").return_value == 0


def test_durations() -> None:
    """A time span shows its two largest units."""
    reported = [duration_text(ms) for ms in (0, 1234, 61_000, 3_660_000, 90_000_000)]
    assert reported == ["0.000s", "1.234s", "1m 1s", "1h 1m", "1d 1h"]


# --- changing -------------------------------------------------------------------------------------


def test_commit(path: Path) -> None:
    """--commit sets one queue's offset, and it is in the file; offsets outside the queue are refused."""
    one = (path, "-g", "billing", "-t", "orders", "-q", 0)
    assert changes(*one, "--commit", 7) == [("billing", "orders", 0, 4, 7)]
    assert offsets(path, "billing", "orders") == {0: 7, 1: 10}
    assert "orders/0 goes from 0 to 10" in str(call(*one, "--commit", 11).exception)
    assert "no queue 9" in str(call(path, "-g", "billing", "-t", "orders", "-q", 9, "--commit", 0).exception)
    assert offsets(path, "billing", "orders") == {0: 7, 1: 10}
    assert_sound(path)


def test_reset(path: Path) -> None:
    """--reset-to sets all queues of a topic, or one, to an end, an offset or a time."""
    all_queues = (path, "-g", "billing", "-t", "orders", "--reset-to")
    assert [change[3:] for change in changes(*all_queues, "earliest")] == [(4, 0), (10, 0), (None, 0)]
    assert [change[4] for change in changes(*all_queues, "latest")] == [10, 10, 10]
    assert changes(path, "-g", "billing", "-t", "orders", "-q", 2, "--reset-to", 5) == [("billing", "orders", 2, 10, 5)]
    with reput.MessageStore.open(path, read_only=True) as store:
        time_ms = store.store_time("orders", 1, 3)
        wanted = [store.offset_by_time("orders", number, time_ms) for number in range(3)]
    assert [change[4] for change in changes(*all_queues, f"@{time_ms}")] == wanted
    assert [change[4] for change in changes(*all_queues, "2001-02-03")] == [0, 0, 0]
    assert offsets(path, "billing", "orders") == {0: 0, 1: 0, 2: 0}


def test_a_group_that_is_new_is_told(path: Path) -> None:
    """Progress for a group that had none is set, with a note, since it may be mistyped."""
    done = call(path, "-g", "biling", "-t", "orders", "--reset-to", "latest")
    assert "group biling had no progress in this store. Near it: billing" in done.stderr
    assert offsets(path, "biling", "orders") == {0: 10, 1: 10, 2: 10}


def test_a_group_with_tabs_and_ends_of_lines_looked_like_further_rows(path: Path) -> None:
    """A change is one line with three cells, and a note is one line, whatever a name holds."""
    done = call(path, "-g", "a\tb\nc", "-t", "orders", "-q", 2, "--reset-to", "latest")
    assert done.stdout.startswith("a\\tb\\nc\torders/2\tnone -> ")
    assert done.stdout.count("\n") == 1
    assert "note: group a\\tb\\nc had no progress" in done.stderr


def test_clone(path: Path) -> None:
    """--clone gives a group another's offsets in the place of its own, in one topic or in all."""
    assert changes(path, "--clone", "billing", "audit", "-t", "orders") == [
        ("audit", "orders", 0, 0, 4),
        ("audit", "orders", 1, None, 10),
    ]
    assert changes(path, "--clone", "audit", "new") == [
        ("new", "clicks", 0, None, 2),
        ("new", "orders", 0, None, 4),
        ("new", "orders", 1, None, 10),
    ]
    assert "no group nobody" in str(call(path, "--clone", "nobody", "new").exception)
    assert "has no progress in clicks" in str(call(path, "--clone", "billing", "new", "-t", "clicks").exception)


def test_clean(path: Path) -> None:
    """--clean-group and --clean-topic forget, and say what; an unknown name is an error."""
    assert changes(path, "--clean-group", "billing") == [
        ("billing", "orders", 0, 4, None),
        ("billing", "orders", 1, 10, None),
    ]
    assert set(groups(path)) == {"audit"}
    assert changes(path, "--clean-topic", "orders") == [("audit", "orders", 0, 0, None)]
    assert offsets(path, "audit", "clicks") == {0: 2}
    for option, name in (("--clean-group", "billing"), ("--clean-topic", "orders")):
        assert isinstance(call(path, option, name).exception, ConfigError)


def test_changes_as_text(path: Path) -> None:
    """Text has a line a queue with the offsets before and after."""
    assert call(path, "--clone", "billing", "new").stdout == "new\torders/0\tnone -> 4\nnew\torders/1\tnone -> 10\n"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--commit", 1, "-g", "billing"), "--commit needs -t and -q"),
        (("--reset-to", "latest"), "--reset-to needs -g and -t"),
        (("--reset-to", "soon", "-g", "billing", "-t", "orders"), "give earliest, latest, an offset"),
        (("--reset-to", "5", "-g", "billing", "-t", "orders"), "give -q"),
        (("--reset-to", "9" * 5000, "-g", "billing", "-t", "orders", "-q", 0), "give earliest, latest, an offset"),
        (("--clean-group", "a", "-t", "orders"), "--clean-group does not take -t"),
        (("--clean-group", "a", "--clean-topic", "b"), "one change at a time"),
    ],
)
def test_misuse(path: Path, arguments: tuple[object, ...], reported: str) -> None:
    """Options that do not go together change nothing."""
    before = stores.digest(path)
    assert reported in str(call(path, *arguments).exception)
    assert stores.digest(path) == before


def test_changes_need_the_store_alone(path: Path) -> None:
    """While somebody writes the store its progress can be read, and not be changed."""
    with reput.MessageStore.open(path, create=True):
        assert set(groups(path)) == {"audit", "billing"}
        assert isinstance(call(path, "--clean-group", "audit").exception, StoreLockedError)
    assert set(groups(path)) == {"audit", "billing"}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_table_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of 80 columns no name and no number is cut; in a pipe names and times are whole, in one table."""
    topics = ["orders", "payments-of-the-whole-of-the-region-of-europe"]
    stored_ms = 1_790_000_000_123
    lags = [
        QueueLag(
            group, topic, 12, 0, 123_456_789, 123_456_000, 789, 93_784_000, 1_790_000_000_123, 1_790_000_000_123, 0
        )
        for group in ("billing", "audit")
        for topic in topics
    ]
    screen, pipe = _Terminal(), io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", screen)
    lag._show(lags, 1_790_000_001_000)
    monkeypatch.setattr(sys, "stdout", pipe)
    lag._show(lags, 1_790_000_001_000)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in screen.getvalue()
    assert sum("123,456,789" in line and "123,456,000" in line for line in lines) == 4
    assert [line.strip() for line in lines if line.startswith("Queues of")] == ["Queues of billing", "Queues of audit"]
    folded = "".join(line.split()[0] for line in lines if line.startswith(" ") and line.split())
    assert folded.count(topics[1]) == 2
    rows = [line.split("\t") for line in pipe.getvalue().splitlines() if topics[1] in line]
    assert [row[0] for row in rows] == ["billing", "audit"]
    assert {row[7] for row in rows} == {time_text(stored_ms)}


@pytest.mark.golden
@pytest.mark.parametrize("name", ["json", "config-v1"])
def test_lost_offsets_were_said_to_be_no_progress(name: str, tmp_path: Path) -> None:
    """A store without the folder of its configuration says what is missing; one that has it does not."""
    store = golden.unpack(name, tmp_path)
    assert "committed offsets: " not in call(store).stderr
    shutil.rmtree(store / paths.CONFIG)
    assert "the store has no file or database of committed offsets: " in call(store).stderr
