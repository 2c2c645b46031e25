"""The places of a store's fields in its files, found by walking along the layouts of `reput.formats`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from reput.formats import checkpoint, paths
from reput.formats.database.rocksdb_table import FOOTER_SIZE
from reput.formats.index import index_file
from reput.formats.log import properties as props
from reput.formats.log import record
from reput.formats.own import files as own
from reput.formats.queue import batch_consume_queue, consume_queue, consume_queue_ext

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.formats.layout import Layout


class Place(NamedTuple):
    """A field in a file: the kind of thing that it is of, its name, its first byte and its bytes."""

    kind: str
    field: str
    path: Path
    offset: int
    size: int


RECORD, BLANK, LOG = "record", "blank record", "file of the log"
ENTRY, PRE_BLANK, QUEUE = "ConsumeQueue entry", "pre-blank entry", "ConsumeQueue file"
BATCH, BATCHES = "batch ConsumeQueue entry", "batch ConsumeQueue file"
UNIT, EXT = "ext unit", "ext file"
HEADER, SLOT, ITEM, INDEX = "IndexFile header", "IndexFile slot", "IndexFile item", "IndexFile"
CHECKPOINT, WATERMARKS = "checkpoint", "reput/watermarks"
UNUSED = "unused bytes"
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+|[{}\[\]:,]')
_NUMBERED = re.compile(r"[0-9]{6}")


def places(store: Path, slots: int) -> Iterator[Place]:
    """Yield the fields of all files of a store that have bytes; its IndexFiles have `slots` slots."""
    for path in sorted(store.rglob("*")):
        if path.is_file() and path.stat().st_size:
            yield from _places_in(store, path, slots)


def _places_in(store: Path, path: Path, slots: int) -> Iterator[Place]:
    top, *below = path.relative_to(store).parts
    name = path.name
    # A database may lie in the folder of the queue files.
    if (path.parent / "CURRENT").exists():
        yield from _of_database(path)
    elif top == paths.COMMIT_LOG and below:
        yield from _of_log(path)
    elif top == paths.CONSUME_QUEUE and len(below) == 3:
        yield from _of_queue(path)
    elif top == paths.BATCH_CONSUME_QUEUE:
        yield from _of_batches(path)
    elif top == paths.CONSUME_QUEUE_EXT:
        yield from _of_ext(path)
    elif top == paths.INDEX:
        yield from _of_index(path, slots)
    elif top == paths.CHECKPOINT:
        yield from _of_layout(CHECKPOINT, checkpoint.CHECKPOINT, path, 0)
        yield _rest(CHECKPOINT, path, checkpoint.CHECKPOINT.size)
    elif (top, name) == (paths.REPUT, own.WATERMARKS_NAME):
        yield from _of_layout(WATERMARKS, own.WATERMARKS, path, 0)
        yield _rest(WATERMARKS, path, own.WATERMARKS.size)
    elif path.read_bytes()[:1] == b"{":
        yield from _of_json(f"{top}/{name}" if below else name, path)
    else:
        yield Place(f"{top}/{name}" if below else name, "bytes", path, 0, path.stat().st_size)


def _of_layout(kind: str, layout: Layout, path: Path, begin: int) -> Iterator[Place]:
    for field, offset in layout.offsets.items():
        yield Place(kind, field, path, begin + offset, layout.sizes[field])


def _rest(kind: str, path: Path, begin: int) -> Place:
    return Place(kind, UNUSED, path, begin, path.stat().st_size - begin)


# --- the log ------------------------------------------------------------------------------------------


def _of_log(path: Path) -> Iterator[Place]:
    data, start, at = path.read_bytes(), int(path.name), 0
    while at < len(data):
        verdict, size = record.examine(data, at, len(data), start + at, record.CHECK_NONE)
        if verdict is record.Verdict.GOOD:
            yield from _of_record(path, data, at)
            at += size
            continue
        if verdict is record.Verdict.BLANK:
            yield from _of_layout(BLANK, record.BLANK, path, at)
            at += record.BLANK_SIZE
        if at < len(data):
            yield _rest(LOG, path, at)
        return


def _of_record(path: Path, data: bytes, begin: int) -> Iterator[Place]:
    found = record.decode_record(data, begin)
    layout = record.before_body(found.sys_flag)
    yield from _of_layout(RECORD, layout, path, begin)
    at = begin + layout.size
    if found.body:
        yield Place(RECORD, "body", path, at, len(found.body))
    at += len(found.body)
    for part in (record.topic_length_of(found.magic), record.PROPERTIES_LENGTH):
        yield from _of_layout(RECORD, part, path, at)
        at += part.size
        if part is not record.PROPERTIES_LENGTH:
            yield Place(RECORD, "topic", path, at, len(found.topic))
            at += len(found.topic)
    for piece in found.properties.split(props.PROPERTY_END):
        name, separator, value = piece.partition(props.NAME_END)
        if separator and value:
            known = name.decode() if name in {props.KEYS, props.TAGS, props.UNIQUE_KEY, props.CRC32} else "other"
            yield Place(RECORD, "property: a name", path, at, len(name))
            yield Place(RECORD, "property: a separator", path, at + len(name), 1)
            yield Place(RECORD, f"property: value of {known}", path, at + len(name) + 1, len(value))
        elif piece:
            yield Place(RECORD, "property: no name and value", path, at, len(piece))
        at += len(piece)
        if at < begin + found.size:
            yield Place(RECORD, "property: a separator", path, at, 1)
        at += 1


# --- indexes ------------------------------------------------------------------------------------------


def _of_queue(path: Path) -> Iterator[Place]:
    data, layout = path.read_bytes(), consume_queue.ENTRY
    for at in range(0, len(data) - layout.size + 1, layout.size):
        entry = consume_queue.decode_entry(data, at)
        if not entry.is_valid:
            yield _rest(QUEUE, path, at)
            return
        for place in _of_layout(PRE_BLANK if entry.is_pre_blank else ENTRY, layout, path, at):
            is_address = entry.is_ext and place.field == "tags_code"
            yield place._replace(field="tags_code (address of an ext unit)") if is_address else place


def _of_batches(path: Path) -> Iterator[Place]:
    data, layout = path.read_bytes(), batch_consume_queue.BATCH_ENTRY
    for at in range(0, len(data) - layout.size + 1, layout.size):
        if not batch_consume_queue.decode_batch_entry(data, at).is_valid:
            yield _rest(BATCHES, path, at)
            return
        yield from _of_layout(BATCH, layout, path, at)


def _of_ext(path: Path) -> Iterator[Place]:
    data, at = path.read_bytes(), 0
    while (unit := consume_queue_ext.decode_unit(data, at)) is not None:
        yield from _of_layout(UNIT, consume_queue_ext.UNIT, path, at)
        if unit.bitmap:
            yield Place(UNIT, "bitmap", path, at + consume_queue_ext.UNIT_SIZE, len(unit.bitmap))
        at += unit.size
    if data[at : at + 2] == consume_queue_ext.FILE_END:
        yield Place(EXT, "end", path, at, len(consume_queue_ext.FILE_END))
        at += len(consume_queue_ext.FILE_END)
    if at < len(data):
        yield _rest(EXT, path, at)


def _of_index(path: Path, slots: int) -> Iterator[Place]:
    data = path.read_bytes()
    header = index_file.decode_header(data)
    yield from _of_layout(HEADER, index_file.HEADER, path, 0)
    items_at = index_file.HEADER_SIZE + slots * index_file.SLOT_SIZE
    for number in range(slots):
        at = index_file.HEADER_SIZE + number * index_file.SLOT_SIZE
        (newest,) = index_file.SLOT.struct.unpack_from(data, at)
        yield Place(SLOT, "newest_item" if newest else "newest_item (no item)", path, at, index_file.SLOT_SIZE)
    for number in range(1, header.index_count):
        yield from _of_layout(ITEM, index_file.ITEM, path, items_at + number * index_file.ITEM_SIZE)
    yield Place(INDEX, "item 0, which is not used", path, items_at, index_file.ITEM_SIZE)
    end = items_at + header.index_count * index_file.ITEM_SIZE
    if header.index_count and end < len(data):
        yield _rest(INDEX, path, end)


# --- others -------------------------------------------------------------------------------------------


def _of_database(path: Path) -> Iterator[Place]:
    size, name = path.stat().st_size, path.name
    kind = "RocksDB " + (
        "table" if name.endswith(".sst") else "log" if name.endswith(".log") else _NUMBERED.sub("", name).strip("-")
    )
    if name.endswith(".sst"):
        yield Place(kind, "blocks", path, 0, size - FOOTER_SIZE)
        yield Place(kind, "footer", path, size - FOOTER_SIZE, FOOTER_SIZE)
    else:
        yield Place(kind, "bytes", path, 0, size)


def _of_json(kind: str, path: Path) -> Iterator[Place]:
    for token in _JSON_TOKEN.finditer(path.read_bytes()):
        text = token.group()
        field = "a text" if text[:1] == b'"' else "punctuation" if text in b"{}[]:," else "a number"
        yield Place(kind, field, path, token.start(), len(text))
