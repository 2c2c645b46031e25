"""Reading beside jobs: a reader waits for a short one, refuses a long one, and sees that one came between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import StoreLockedError
from reput.formats.own import files as own
from reput.store.disk.layout import find_store
from reput.store.owner import standstill
from reput.store.owner.holders import Holder, Who, writer_of
from reput.store.owner.owner import own_store
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.store.disk.layout import StoreLayout


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[StoreLayout]:
    """A small store that nobody holds."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 5)
    yield find_store(tmp_path / "s", StoreConfig())
    if not (tmp_path / "s" / "reput" / own.INTENT_NAME).exists():
        assert_sound(tmp_path / "s", CONFIG)


def test_a_long_job_is_named(layout: StoreLayout) -> None:
    """A reader does not wait for the end of a rebuild: the error has its process."""
    with own_store(layout), pytest.raises(StoreLockedError, match="rebuild or another job of reput, process"):
        standstill.begin_reading(layout)


def test_a_program_that_opens_for_long_is_named(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader waits for a program that opens the store, and in the end says that it has waited."""
    monkeypatch.setattr(standstill, "_OPENING_WAIT_S", 0.05)
    waited = r"opens or closes the store, process .* Wait until it is done"
    with own_store(layout, holder=own.HOLDER_WRITER), pytest.raises(StoreLockedError, match=waited):
        standstill.begin_reading(layout)


def test_a_short_job_is_waited_for(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that meets the last moments of a job begins when it has ended."""
    holders = iter([Holder(Who.JOB, 1), Holder(Who.OPENING, 1)])
    monkeypatch.setattr(standstill, "holder_of", lambda _: next(holders, Holder(Who.NOBODY)))
    assert standstill.begin_reading(layout).holder.who is Who.NOBODY


def test_a_swap_that_was_killed_is_not_read(layout: StoreLayout) -> None:
    """Between two renames of a swap nothing is read: the error names the intent and the command that ends the swap."""
    begun = standstill.begin_reading(layout)
    layout.own(own.INTENT_NAME).write_bytes(own.encode_intent(own.Intent(1, ("index",))))
    with pytest.raises(StoreLockedError, match=r"intent: .*`reput rebuild` finishes that"):
        standstill.begin_reading(layout)
    with pytest.raises(StoreLockedError, match="intent: "):
        standstill.end_reading(layout, begun)
    with pytest.raises(StoreLockedError, match="`reput rebuild` finishes it"):
        writer_of(layout)


def test_a_reader_knows_how_far_a_writer_is(tmp_path: Path) -> None:
    """Beside a writer the log is whole up to what it has confirmed, beside a follower indexes up to its frontier."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 5)
        seen = standstill.begin_reading(store.layout)
        assert seen.holder.who is Who.WRITER
        assert (seen.frontier, seen.confirmed) == (0, store.view.confirmed())
        assert standstill.end_reading(store.layout, seen) is False
    with own_store(store.layout, holder=own.HOLDER_FOLLOWER):
        seen = standstill.begin_reading(store.layout)
        assert (seen.holder.who, seen.confirmed) == (Who.FOLLOWER, None)
        assert seen.frontier == store.view.confirmed()
    assert standstill.end_reading(store.layout, standstill.begin_reading(store.layout)) is True


def test_indexes_that_were_replaced_meanwhile_are_an_error(layout: StoreLayout) -> None:
    """A reader that began before a swap learns of it at its end, and that a job began if it met an error."""
    begun = standstill.begin_reading(layout)
    with own_store(layout):
        pass
    assert standstill.end_reading(layout, begun) is False
    with pytest.raises(StoreLockedError, match="began meanwhile"):
        standstill.end_reading(layout, begun, ValueError("mixed"))
    with own_store(layout) as owned:
        owned.indexes_replaced()
    with pytest.raises(StoreLockedError, match="began meanwhile"):
        standstill.end_reading(layout, begun)
