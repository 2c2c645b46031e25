"""The list of kinds of queues that a store can have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.queue.queue_kinds import BATCHES, KINDS, MESSAGE_KINDS, TARGETS
from reput.store.disk.kinds import all_kinds, kind_named
from reput.store.disk.layout import StoreLayout

if TYPE_CHECKING:
    from pathlib import Path

CHOSEN = sorted(MESSAGE_KINDS)


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    """The paths of a store."""
    return StoreLayout(tmp_path, tmp_path / paths.COMMIT_LOG)


def test_each_kind_has_its_name(layout: StoreLayout) -> None:
    """Every kind that settings or conversions name, or that a store may have beside those, is listed under its name."""
    assert {name: kind.name for name, kind in all_kinds(layout).items()} == {name: name for name in KINDS}
    assert {name for names in TARGETS.values() for name in names} == {*MESSAGE_KINDS}
    assert [kind_named(name, layout).name for name in CHOSEN] == CHOSEN


@pytest.mark.parametrize("name", ["", "files", "ROCKSDB", BATCHES])
def test_a_name_that_is_no_kind_is_refused(name: str, layout: StoreLayout) -> None:
    """A name that settings cannot choose is an error with the names that they can; it is never another kind."""
    with pytest.raises(ConfigError, match=rf"{name!r} is no kind of queues .* {', '.join(CHOSEN)}$"):
        kind_named(name, layout)


def test_each_folder_of_queues_has_one_kind(layout: StoreLayout) -> None:
    """The kinds in any folder have all of RocketMQ's folders of queues, each once; two of them may share one."""
    places = [replace(layout, separate_database=separate) for separate in (False, True)]
    found = {(kind.name, kind.folder.name) for place in places for kind in all_kinds(place).values()}
    assert {folder for _, folder in found} == {*paths.QUEUE_FOLDERS} - {paths.CONSUME_QUEUE_EXT}
