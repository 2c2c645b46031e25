"""A look at IndexFiles for the items of tags, which RocketMQ has written since 5.4.0.

The first IndexFile that still points into the log decides: the records of its first items have an item for their tag,
or they do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reput.formats.index import index_file
from reput.formats.java.hashing import index_key_hash
from reput.formats.log import properties
from reput.formats.log.record import Verdict, decode_record
from reput.index.files import IndexFileOnDisk, read_items
from reput.log.read.files import LogFiles
from reput.log.read.reader import record_at

_ITEMS_ASKED = 4000


def tag_items_in_use(files: Sequence[IndexFileOnDisk], log: LogFiles, slots: int) -> bool | None:
    """Return True if these IndexFiles have items for tags.

    None if they do not show it: there are no files, or no message has a tag.
    """
    for file in files:
        has_tags = _has_tag_items(file, log, slots)
        if has_tags is not None:
            return has_tags
    return None


def _has_tag_items(file: IndexFileOnDisk, log: LogFiles, slots: int) -> bool | None:
    if file.header is None:
        return None
    count = min(file.header.index_count - 1, _ITEMS_ASKED)
    items = read_items(file.path, slots, 1, count)
    offsets, hashes = items["physical_offset"], items["key_hash"]
    _, firsts = np.unique(offsets, return_index=True)
    # The first and last message of a file may have items in the neighbour file.
    for offset in offsets[np.sort(firsts)][1:-1].tolist():
        tag_hash = _tag_hash(log, offset)
        if tag_hash is not None:
            return tag_hash in hashes[offsets == offset]
    return None


def _tag_hash(log: LogFiles, offset: int) -> int | None:
    """Return the key hash of the tag item of the record at `offset`; None without a record or a tag."""
    found = record_at(log, offset)
    # A search for the name first saves most of the work if no message has a tag.
    if isinstance(found, Verdict) or properties.TAGS not in found.data:
        return None
    record = decode_record(found.data)
    tag = properties.decode_properties(record.properties).get(properties.TAGS)
    return index_key_hash(record.topic + b"#" + index_file.TAG_KEY_PREFIX + tag) if tag else None
