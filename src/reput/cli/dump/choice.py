"""The choice of a topic and a queue, and the log that entries and records are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.cli.shared import opened as stores
from reput.cli.shared import output

if TYPE_CHECKING:
    from reput.log.read.files import LogFiles
    from reput.store.disk.store import StoreOnDisk

chosen_topic_option = stores.topic_option("Only this topic.")
chosen_queue_option = stores.queue_option("Only the queues with this id.")


def log_of(store: StoreOnDisk) -> LogFiles:
    """Return the files of the log, and show notes about them, and about names of another type."""
    for note in (*store.log.notes, *store.wrong_type_texts):
        output.say(f"note: {note}")
    return store.log
