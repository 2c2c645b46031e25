"""The deletion of a topic, or of one of its queues: entries, ext units and numbers are removed; the log keeps messages.

Each queue is removed at once. The store's own file `deleted` is written before the first queue is removed, and again
after the last one. After a kill in between, the next owner does the rest. From then on a rebuild leaves out the queues
in this file, and `check` does not miss them. This ends for a queue that the store has again, by new messages or by a
rebuild that names its topic, and for a queue whose deleted messages have expired from the log.

Source: `DefaultMessageStore.deleteTopics`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import shown_text
from reput.nearest import FEW, some
from reput.queue.files import move_queues_aside
from reput.queue.kinds import AnyKind
from reput.store.disk.given_offsets import forget_given_offsets
from reput.store.disk.kinds import every_present_kind
from reput.store.disk.layout import StoreLayout, refuse_linked_indexes
from reput.store.owner.swap import deletion_aside, remove_folder

if TYPE_CHECKING:
    from reput.store.owner.owner import Ownership

_LIMIT = 256 << 20


def read_deleted(layout: StoreLayout) -> tuple[own.Deleted, ...]:
    """Read the deleted queues from the store's own file.

    Raises:
        DamagedStoreError: the file is damaged.
    """
    path = layout.own(own.DELETED_NAME)
    data = fs.read_bytes(path, _LIMIT)
    return () if data is None else own.decode_deleted(data, str(path))


def write_deleted(layout: StoreLayout, queues: Iterable[own.Deleted]) -> None:
    """Replace the file of deleted queues durably; without any queue it is removed."""
    path, known = layout.own(own.DELETED_NAME), sorted(queues)
    if known:
        fs.write_whole(path, own.encode_deleted(known), fs.owner_of(layout.root))
    elif fs.exists(path):
        fs.remove_file(path)
        fs.sync_path(layout.reput)


def still_deleted(layout: StoreLayout, log_min_offset: int) -> list[own.Deleted]:
    """List the deleted queues that the store does not have again, and of which the log may have messages.

    Queues whose deletion is not complete are included, present or not.

    Raises: as `read_deleted`.
    """
    found = [one for one in read_deleted(layout) if one.offset > log_min_offset]
    here = present_keys(layout, [one.key for one in found]) if found else set()
    return [one for one in found if one.key not in here or not one.done]


def left_out(layout: StoreLayout, log_min_offset: int) -> dict[QueueKey, int]:
    """Return the deleted queues that get no entry for a record below a log offset, each with that offset.

    A queue that began again with new messages is included. A queue that has a message below that offset is not: a
    broker, or a rebuild that names its topic, has restored it.

    Raises: as `read_deleted`.
    """
    deleted = {one.key: one.offset for one in read_deleted(layout) if one.offset > log_min_offset}
    back = set(_brought_back(layout, deleted)) if deleted else set()
    return {key: offset for key, offset in deleted.items() if key not in back}


def _brought_back(layout: StoreLayout, deleted: Mapping[QueueKey, int]) -> Iterator[QueueKey]:
    """Those of these queues that have an entry of a record below their offset; what cannot be read has none."""
    for kind in every_present_kind(layout):
        with contextlib.suppress(DamagedStoreError), kind.asked() as queue_of:
            for key, offset in deleted.items():
                queue = queue_of(key)
                if queue is not None and queue.span(below=offset).last is not None:
                    yield key


def present_keys(layout: StoreLayout, keys: Sequence[QueueKey]) -> set[QueueKey]:
    """Return those of these queues that have an entry, in any kind; a kind that cannot be read has none.

    Without an entry a queue is not there again: a power cut may leave the files of new messages, and not these.
    """
    found: set[QueueKey] = set()
    for kind in every_present_kind(layout):
        with contextlib.suppress(DamagedStoreError), kind.asked() as queue_of:
            asked = ((key, queue_of(key)) for key in keys)
            found.update(key for key, queue in asked if queue is not None and queue.span().last is not None)
    return found


def named(deleted: Sequence[own.Deleted]) -> str:
    """Return the first of these queues as text."""
    return some([str(one.key) for one in deleted], FEW)


def how_to_bring_back(deleted: Sequence[own.Deleted]) -> str:
    """Return the command that undoes the deletion of these queues, as text."""
    topics = dict.fromkeys(shown_text(one.key.topic) for one in deleted[:FEW])
    return "`reput rebuild" + "".join(f" --topic {topic}" for topic in topics) + "` brings them back"


def delete_queues(
    owned: Ownership, kinds: Sequence[AnyKind], topic: bytes, queue_id: int | None, end_offset: int
) -> list[QueueKey]:
    """Delete the queues of a topic, or the one with this id, of every kind; returns the removed queues, by id.

    Their messages lie below log offset `end_offset`. Messages that are put meanwhile lie above it and stay.

    Raises:
        UnsupportedStoreError: a folder of queues is a link, and files cannot be moved out of its file system.
    """
    layout = owned.layout
    refuse_linked_indexes(layout)
    known = {one.key: one for one in read_deleted(layout)}
    # First: it fails if the file is damaged.
    forget_given_offsets(layout, topic, queue_id)
    here = {key for key in _keys(kinds, topic) if queue_id in (None, key.queue_id)}
    if here:
        write_deleted(layout, (known | {key: own.Deleted(key, end_offset, done=False) for key in here}).values())
    # After a kill the next owner removes this folder.
    aside, owner = deletion_aside(layout, owned.epoch), fs.owner_of(layout.root)
    gone = {key for kind in kinds for key in kind.delete(topic, queue_id, owner, aside)}
    # After the queues: an entry without its unit would look like damage.
    move_queues_aside(layout.consume_queue_ext, topic, queue_id, aside)
    if gone:
        owned.indexes_replaced()
    remove_folder(layout, own.aside_name(owned.epoch))
    for key in gone:
        known[key] = own.Deleted(key, end_offset, done=True)
    for key, one in known.items():
        if key.topic == topic and queue_id in (None, key.queue_id):
            known[key] = one._replace(done=True)
    write_deleted(layout, known.values())
    return sorted(gone)


def _keys(kinds: Sequence[AnyKind], topic: bytes) -> Iterator[QueueKey]:
    """Yield the queues of a topic that the store has, of any kind."""
    for kind in kinds:
        with contextlib.closing(kind.queues(topic)) as queues:
            yield from (queue.key for queue in queues)


def finish_deletions(owned: Ownership, kinds: Sequence[AnyKind]) -> list[str]:
    """Complete interrupted deletions; returns a note about them."""
    undone = [one for one in read_deleted(owned.layout) if not one.done]
    for one in undone:
        delete_queues(owned, kinds, one.key.topic, one.key.queue_id, one.offset)
    return [f"a deletion had broken off; finished it: {named(undone)}"] if undone else []
