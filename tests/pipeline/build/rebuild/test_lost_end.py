"""A log whose last files are gone, from a store that was closed: the numbers of lost messages are not given again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.store.recover import known_good
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from pathlib import Path

_SMALL = replace(CONFIG, mapped_file_size_commit_log=1 << 13)


def without_last_log_file(path: Path) -> int:
    """Make a closed store of 200 messages, and remove its last log file; return the number of messages left."""
    with reput.MessageStore.open(path, _SMALL, create=True) as store:
        put(store, 200)
    files = sorted((path / paths.COMMIT_LOG).iterdir())
    files[-1].unlink()
    with reput.MessageStore.open(path, _SMALL, read_only=True) as store:
        return len(list(store.messages("t")))


@pytest.mark.parametrize("salvage", [False, True])
def test_a_rebuild_keeps_the_numbers_of_lost_messages(salvage: bool, tmp_path: Path) -> None:
    """The rebuild names the lost end and each queue, does so again, and the next message has a new number."""
    path = tmp_path / "store"
    left = without_last_log_file(path)
    assert 0 < left < 200
    for _ in range(1 if salvage else 2):
        report = reput.rebuild(path, spark=False, config=_SMALL, salvage=salvage)
        warnings = "\n".join(report.warnings)
        assert "watermarks calls the log durable up to" in warnings
        assert f"t/0: messages {left} to 199 are lost with a part of the log" in warnings
        assert_sound(path, _SMALL)
    with reput.MessageStore.open(path, _SMALL, read_only=True) as store:
        assert ("calls it durable" in " ".join(store.damage)) is not salvage
    with reput.MessageStore.open(path, _SMALL) as store:
        assert store.max_offset("t", 0) == 200
        assert store.put_message(reput.Message("t", b"next")).queue_offset == 200
        assert len(list(store.messages("t"))) == left + 1
    assert_sound(path, _SMALL)


def test_a_log_that_ends_where_it_was_durable_has_lost_nothing(tmp_path: Path) -> None:
    """A rebuild of a closed store, and of one without a message, warns of nothing."""
    for name, count in (("closed", 50), ("empty", 0)):
        with reput.MessageStore.open(tmp_path / name, _SMALL, create=True) as store:
            put(store, count)
        assert reput.rebuild(tmp_path / name, spark=False, config=_SMALL).warnings == []


def test_a_rebuild_read_the_last_files_of_a_sound_log_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To see that nothing is lost the time of the last record is enough, which the rebuild knows."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, _SMALL, create=True) as store:
        put(store, 200)
    monkeypatch.setattr(known_good, "newest_before", None)
    assert reput.rebuild(path, spark=False, config=_SMALL).messages == 200
