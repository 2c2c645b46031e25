"""A deleted queue whose files are back without an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reput
from reput.formats import paths
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path


def test_the_files_of_new_messages_that_a_crash_has_taken_bring_no_queue_back(tmp_path: Path) -> None:
    """A check missed the deleted messages of a queue whose new ones a power cut had taken; a simulation found it."""
    path, config = tmp_path / "store", reput.StoreConfig(mapped_file_size_consume_queue=100)
    with reput.MessageStore.open(path, config, create=True) as store:
        for topic in ("kept", "gone"):
            store.put_message(reput.Message(topic, b"body"))
    with reput.MessageStore.open(path, config) as store:
        store.delete_topic("gone")
    file = path / paths.CONSUME_QUEUE / "gone" / "0" / paths.offset_name(0)
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(100))
    assert_sound(path, config)
    reput.rebuild(path, config=config, spark=False)
    with reput.MessageStore.open(path, config) as store:
        assert store.max_offset("gone", 0) == 0
        assert store.put_message(reput.Message("gone", b"new")).queue_offset == 0
    assert_sound(path, config)
