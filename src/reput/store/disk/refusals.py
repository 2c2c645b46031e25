"""The refusals of each purpose: a store that cannot be used so.

`layout.find_store` has the refusals for every reader and job. A refusal for some purposes is one line in `_EARLY` or
`_OF_FILES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.queue.files import QUEUES_ASKED
from reput.store.disk.abort import is_closed
from reput.store.disk.contradictions import refuse_contradictions
from reput.store.disk.database_folder import misplaced_database, refuse_misplaced_database
from reput.store.disk.facts import StoreFacts
from reput.store.disk.layout import (
    refuse_linked_indexes,
    refuse_others_links,
    refuse_own_links,
    refuse_several_log_paths,
)
from reput.store.disk.log_paths import refuse_missing_folders
from reput.store.disk.placement import unseen_queues
from reput.store.disk.purpose import BUILDS, CHANGES, Purpose
from reput.store.disk.queue_refusals import (
    refuse_another_queue_file_size,
    refuse_held_kinds,
    refuse_odd_queue_files,
)
from reput.store.disk.queue_types import refuse_batches_beside, refuse_misplaced_queues
from reput.store.disk.wrong_types import refuse_wrong_types


class _Refusal(NamedTuple):
    """A refusal, and the purposes that it is for."""

    purposes: frozenset[Purpose]
    refuse: Callable[[StoreFacts], None]


def _refuse_odd_queue_files(store: StoreFacts) -> None:
    # After a clean end a writer looks at few queues here, and at each of the others when something is put to it.
    looks_at_few = store.purpose is Purpose.WRITE and is_closed(store.layout)
    most = QUEUES_ASKED if looks_at_few else None
    refuse_odd_queue_files(store.kinds, store.settings.queue_file_size, most)


def _refuse_damaged_frontier(store: StoreFacts) -> None:
    # Before any work, not when the new indexes are ready.
    _ = store.frontier


def _refuse_other_kinds(store: StoreFacts) -> None:
    refuse_misplaced_database(store.layout)
    if why := store.missing_kinds:
        raise UnsupportedStoreError(why)


def _refuse_unseen_queues(store: StoreFacts) -> None:
    if why := unseen_queues(store.named_kinds, store.placement, store.placement_shown):
        raise ConfigError(why)


def _refuse_partial_database(store: StoreFacts) -> None:
    if store.partial_database:
        raise DamagedStoreError(store.partial_database)


def _refuse_misplaced_for_some(store: StoreFacts) -> None:
    if why := misplaced_database(store.layout):
        raise ConfigError(f"{why}. A rebuild of some topics leaves the database where it is")


_LOOKS_FOR_KINDS = frozenset({Purpose.SCAN, Purpose.DELETE})
_READS_OR_EXTENDS = frozenset({Purpose.READ, Purpose.WRITE, Purpose.FOLLOW})

_EARLY = (
    _Refusal(CHANGES, lambda store: refuse_wrong_types(store.layout)),
    _Refusal(CHANGES, lambda store: refuse_own_links(store.layout)),
    _Refusal(CHANGES, lambda store: refuse_others_links(store.layout)),
    _Refusal(frozenset({Purpose.WRITE}), lambda store: refuse_several_log_paths(store.layout)),
    _Refusal(CHANGES, lambda store: refuse_missing_folders(store.config)),
    _Refusal(BUILDS | {Purpose.DELETE}, lambda store: refuse_linked_indexes(store.layout)),
    _Refusal(_LOOKS_FOR_KINDS, _refuse_other_kinds),
    # A follower asks once: a writer that comes and goes meanwhile has settings of its own.
    _Refusal(frozenset({Purpose.FOLLOW, Purpose.DELETE}), refuse_contradictions),
)

_OF_FILES = (
    _Refusal(_READS_OR_EXTENDS, _refuse_other_kinds),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_unseen_queues),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_partial_database),
    _Refusal(frozenset({Purpose.BUILD_SOME}), _refuse_misplaced_for_some),
    _Refusal(BUILDS | {Purpose.WRITE}, refuse_contradictions),
    _Refusal(
        frozenset({Purpose.READ, Purpose.WRITE}),
        lambda store: refuse_another_queue_file_size(store.layout, store.config, store.settings.queue_file_size),
    ),
    _Refusal(_READS_OR_EXTENDS, lambda store: refuse_misplaced_queues(store.layout, store.settings.types)),
    _Refusal(
        _READS_OR_EXTENDS | BUILDS | {Purpose.CHECK},
        lambda store: refuse_batches_beside(store.settings.types, store.kinds),
    ),
    _Refusal(frozenset({Purpose.WRITE}), lambda store: refuse_held_kinds(store.layout, store.kinds, replaces=False)),
    _Refusal(
        frozenset({Purpose.BUILD, Purpose.BUILD_SOME}),
        lambda store: refuse_held_kinds(store.layout, store.present, replaces=True),
    ),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_odd_queue_files),
    _Refusal(BUILDS, _refuse_damaged_frontier),
)


def refuse_by_settings(store: StoreFacts) -> None:
    """Refuse a store by its configuration and folders; see `StoreOnDisk.refuse_early`."""
    _refuse(store, _EARLY)


def refuse_by_files(store: StoreFacts) -> None:
    """Refuse a store by its files; see `StoreOnDisk.refuse`."""
    _refuse(store, _OF_FILES)


def _refuse(store: StoreFacts, refusals: tuple[_Refusal, ...]) -> None:
    for one in refusals:
        if store.purpose in one.purposes:
            one.refuse(store)
