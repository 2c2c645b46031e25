"""The effect of a deletion of queues, from a look at the files; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.files import fs
from reput.formats.stored_text import shown_text, stored_bytes
from reput.nearest import unknown_topic
from reput.queue.kinds import AnyKind
from reput.store.disk.folder_sizes import Replaced, measured
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.owner import refuse_owned


@dataclass(slots=True)
class DryDeletion:
    """The queues of a topic that a deletion would remove: ids, entries, and the folders of files."""

    store: str
    topic: str
    queues: list[int]
    entries: int
    removed: list[Replaced]

    def to_dict(self) -> dict[str, Any]:
        """Return every field, ready for JSON."""
        return {**asdict(self), "removed": [one._asdict() for one in self.removed]}


def dry_delete(root: Path | str, config: StoreConfig, topic: str, queue_id: int | None) -> DryDeletion:
    """Find what a deletion would remove.

    Raises:
        ConfigError: there is no such topic, or no such queue.
        ReputError: the deletion would be refused.
    """
    store = StoreOnDisk.find(root, config, Purpose.DELETE)
    layout = store.layout
    refuse_owned(layout)
    kinds = store.kinds
    entries = _entries(kinds, topic)
    folders = [layout.consume_queue, layout.batch_consume_queue, layout.consume_queue_ext]
    there = sorted({*entries, *(one for folder in folders for one in _ids(folder / topic))})
    chosen = [one for one in there if queue_id in {None, one}]
    if not there:
        topics = {queue.key.topic for kind in kinds for queue in kind.queues()}
        known = sorted(shown_text(name) for name in topics)
        raise ConfigError(unknown_topic(layout.root, topic, known))
    if not chosen:
        ids = ", ".join(map(str, there))
        raise ConfigError(f"{layout.root}: topic {topic} has no queue {queue_id}. There are: {ids}")
    removed = [measured(layout, folder / topic / str(one)) for folder in folders for one in chosen]
    held = sum(entries.get(one, 0) for one in chosen)
    return DryDeletion(str(layout.root), topic, chosen, held, [one for one in removed if one.files])


def _entries(kinds: Sequence[AnyKind], topic: str) -> dict[int, int]:
    """Return the number of entries of each queue of a topic, in the kind that is read first; a batch is one entry."""
    found: dict[int, int] = {}
    for kind in kinds:
        for queue in kind.queues(stored_bytes(topic)):
            if queue.key.queue_id not in found:
                found[queue.key.queue_id] = queue.entry_count()
    return found


def _ids(folder: Path) -> Iterable[int]:
    """Return the ids of the queues that have a folder in a topic's folder."""
    return (int(entry.name) for entry in fs.list_dir(folder) if not entry.is_file and entry.name.isdecimal())
