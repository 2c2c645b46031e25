"""`reput dump`: records, queue entries and index items as text or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from reput.cli import options, output
from reput.formats.consume_queue import ENTRY_SIZE

if TYPE_CHECKING:
    from reput.config import StoreConfig
    from reput.formats.consume_queue import Entry
    from reput.formats.record import Record
    from reput.index.reader import IndexReader, Item
    from reput.log.files import LogFiles
    from reput.log.reader import LogRecord, WalkEnd
    from reput.queue.files import QueueFolder
    from reput.store.layout import StoreLayout

_NAMES_SHOWN = 40
_FAULTS_SHOWN = 20

_topic_option = click.option("-t", "--topic", help="Only this topic.")
_queue_option = click.option(
    "-q", "--queue", "queue_id", type=click.IntRange(min=0), help="Only the queues of this id."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Give a JSON object a line instead of text.")
_body_option = click.option(
    "--body-bytes",
    type=click.IntRange(min=0),
    help="At most so many bytes of each body; text shows bodies only with this.",
)


def _count_option(of_what: str) -> Callable[[Any], Any]:
    return click.option("-c", "--count", type=click.IntRange(min=0), help=f"At most so many {of_what}.")


@click.group()
def dump() -> None:
    """Show what stands in a store: records of its log, entries of its queues, or items of its IndexFiles.

    Nothing is changed, and a broker may have the store open. Exit code 1 when bytes in the middle are damaged.
    """


# --- records of the log ---------------------------------------------------------------------------


@dump.command()
@options.store_argument
@_topic_option
@_queue_option
@click.option(
    "-o", "--offset", type=click.IntRange(min=0), help="Begin with the first record at or behind this log offset."
)
@_count_option("records")
@_body_option
@click.option("--no-verify-crc", is_flag=True, help="Do not check the CRC of each body.")
@options.config_options
@_json_option
def log(
    store: str,
    topic: str | None,
    queue_id: int | None,
    offset: int | None,
    count: int | None,
    body_bytes: int | None,
    no_verify_crc: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the records of STORE's log, in its order.

    Text has a line a record, with tabs between log offset, store time, topic/queue, queue offset, size, tag and keys.
    JSON has all of a record, its body as text where it is UTF-8, else as base64 (body_encoding says which).

    \b
    reput dump log /data/store -o 1048576 -c 10
    reput dump log /data/store -t orders -q 2 --json --body-bytes 200
    """  # noqa: D301 - click wants the control character
    from reput.formats.record import CHECK_BODY, CHECK_NONE, CHECK_PROPERTY
    from reput.log.reader import LogWalk, next_boundary

    config = options.config_of(config_path, assignments, store)
    _, files = _open_log(store, config)
    crc_check = CHECK_PROPERTY if config.force_verify_prop_crc else CHECK_BODY
    crc_check = CHECK_NONE if no_verify_crc else crc_check
    begin = files.min_offset if offset is None else next_boundary(files, offset)
    if offset is not None and offset < files.min_offset:
        output.say(f"note: the log starts at {files.min_offset}; what was in front of it has expired")
    walk = LogWalk(files, begin, crc_check)
    chosen = (found for found in walk if _is_chosen(found, topic, queue_id))
    _head(as_json, ("offset", "stored", "topic/queue", "queue offset", "size", "tag", "keys"))
    shown = 0
    for found in islice(chosen, count):
        _show_record(found, body_bytes, as_json)
        shown += 1
    if count is not None and shown >= count:
        return 0
    if not shown and (topic is not None or queue_id is not None):
        output.say("note: no such record in this part of the log; `reput info` lists the topics")
    return _show_end(files, walk.end())


def _open_log(store: str, config: StoreConfig) -> tuple[StoreLayout, LogFiles]:
    from reput.log.files import list_log_files
    from reput.store.layout import find_store

    layout = find_store(store, config)
    files = list_log_files(layout.commit_log, config.mapped_file_size_commit_log, tolerant=True)
    for note in files.notes:
        output.say(f"note: {note}")
    return layout, files


def _is_chosen(found: LogRecord, topic: str | None, queue_id: int | None) -> bool:
    if topic is None and queue_id is None:
        return True
    record = found.decode()
    return (topic is None or record.topic == topic.encode("utf-8", "surrogateescape")) and (
        queue_id is None or record.queue_id == queue_id
    )


def _show_end(files: LogFiles, end: WalkEnd) -> int:
    """Say why the log ends here; returns the exit code."""
    from reput.log.reader import place

    if end.is_damage:
        output.say(
            f"damage: {place(files, end.offset)}: {end.verdict.meaning}; the next record stands at log offset "
            f"{end.next_record}. Go on there with -o {end.next_record}; restore these bytes from a replica or a backup"
        )
        return 1
    if end.is_torn:
        output.say(
            f"note: {place(files, end.offset)}: {end.verdict.meaning}, {end.written} bytes, and no record behind: "
            "the torn end of a crash, or of a range that a broker is writing"
        )
    return 0


def _show_record(found: LogRecord, body_bytes: int | None, as_json: bool) -> None:
    record = found.decode()
    if as_json:
        output.emit_json(record_values(record, body_bytes))
    else:
        output.show("\t".join((str(found.offset), *record_cells(record, body_bytes))))


def record_cells(record: Record, body_bytes: int | None) -> Iterator[str]:
    """The cells of a record's line behind its offset."""
    from reput.formats import properties as props

    named = props.text_properties(record.properties)
    yield output.time_text(record.store_timestamp)
    yield f"{_line(_text(record.topic))}/{record.queue_id}"
    yield str(record.queue_offset)
    yield str(record.size)
    yield _line(named.get(props.TAGS.decode(), "-"))
    keys = [named.get(name.decode(), "") for name in (props.UNIQ_KEY, props.KEYS)]
    yield _line(" ".join(key for key in keys if key) or "-")
    if body_bytes is not None:
        body = body_values(record.body, body_bytes)
        cut = f"... ({len(record.body)} bytes)" if body["body_truncated"] else ""
        yield f"{body['body_encoding']}:{_line(body['body'])}{cut}"


def record_values(record: Record, body_bytes: int | None = None) -> dict[str, Any]:
    """A record ready for JSON; times in ms, strings as text with what is no UTF-8 replaced."""
    from reput.formats import properties as props
    from reput.formats import record as formats

    named = props.text_properties(record.properties)
    transactions = {
        formats.TRANSACTION_PREPARED: "prepared",
        formats.TRANSACTION_COMMIT: "commit",
        formats.TRANSACTION_ROLLBACK: "rollback",
    }
    compressed = bool(record.sys_flag & formats.FLAG_COMPRESSED)
    return {
        "physical_offset": record.physical_offset,
        "size": record.size,
        "version": 2 if record.magic == formats.MAGIC_V2 else 1,
        "topic": _text(record.topic),
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_timestamp": record.store_timestamp,
        "born_timestamp": record.born_timestamp,
        "store_host": str(record.store_host),
        "born_host": str(record.born_host),
        "message_id": record.message_id,
        "unique_key": named.get(props.UNIQ_KEY.decode()),
        "tags": named.get(props.TAGS.decode()),
        "keys": named.get(props.KEYS.decode(), "").split(),
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "transaction": transactions.get(record.sys_flag & formats.TRANSACTION_MASK),
        "compression": formats.COMPRESSION_NAMES.get(record.sys_flag & formats.COMPRESSION_MASK)
        if compressed
        else None,
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "body_crc": record.body_crc,
        "properties": named,
        **body_values(record.body, body_bytes),
    }


def body_values(body: bytes, body_bytes: int | None = None) -> dict[str, Any]:
    """A body as text where all of it is UTF-8, else as base64; `body_bytes` cuts it, between characters of text."""
    import base64

    kept = body if body_bytes is None else body[:body_bytes]
    try:
        body.decode()
        encoding, shown = "text", kept.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        encoding, shown = "base64", base64.b64encode(kept).decode()
    return {
        "body": shown,
        "body_encoding": encoding,
        "body_length": len(body),
        "body_truncated": len(kept) < len(body),
    }


# --- entries of queues ----------------------------------------------------------------------------


@dump.command()
@options.store_argument
@_topic_option
@_queue_option
@click.option("-o", "--offset", type=int, help="Begin with this queue offset; a negative one counts from the end.")
@_count_option("entries of each queue")
@click.option("--records", is_flag=True, help="Add the record that each entry points to.")
@_body_option
@options.config_options
@_json_option
def queue(
    store: str,
    topic: str | None,
    queue_id: int | None,
    offset: int | None,
    count: int | None,
    records: bool,
    body_bytes: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the ConsumeQueue entries of STORE, queue by queue.

    Text has a line an entry, with tabs between topic/queue, queue offset, log offset, size and tags code; --records
    adds store time, tag and keys of the record. Exit code 1 when an entry points to no record, or to another one.

    \b
    reput dump queue /data/store -t orders -q 2 -o -10
    reput dump queue /data/store -t orders --records --json
    """  # noqa: D301 - click wants the control character
    from reput.queue.reader import queue_span, read_entries

    config = options.config_of(config_path, assignments, store)
    layout, files = _open_log(store, config)
    faults = 0
    head = ("topic/queue", "queue offset", "log offset", "size", "tags code")
    _head(as_json, (*head, "stored", "topic/queue", "queue offset", "size", "tag", "keys") if records else head)
    for folder in _chosen_queues(layout, config, topic, queue_id):
        end = queue_span(folder).max_offset
        lowest = folder.files[0].start // ENTRY_SIZE if folder.files else 0
        begin = _begin(offset, lowest, end, f"{folder.topic}/{folder.queue_id}")
        end = end if count is None else min(end, begin + count)
        for number, entry in read_entries(folder, begin, end):
            fault = _show_entry(files, folder, number, entry, records, body_bytes, as_json)
            if fault is not None:
                faults += 1
                _say_fault(folder, number, fault, faults)
    if faults > _FAULTS_SHOWN:
        output.say(f"damage: {faults} entries in all do not fit their records")
    return 1 if faults else 0


def _say_fault(folder: QueueFolder, number: int, fault: str, faults: int) -> None:
    if faults > _FAULTS_SHOWN:
        return
    at = number * ENTRY_SIZE
    file = next(file for file in folder.files if file.start <= at < file.start + file.size)
    output.say(f"damage: {file.path} at {at - file.start}: {fault}. Run `reput check`, then `reput rebuild`")


def _begin(offset: int | None, lowest: int, end: int, what: str) -> int:
    """The first number of [lowest, end) that `-o` asks for."""
    if offset is None:
        return lowest
    wanted = end + offset if offset < 0 else offset
    if not lowest <= wanted < end and offset >= 0:
        output.say(f"note: {what} holds {lowest} to {end - 1}" if end > lowest else f"note: {what} is empty")
    return max(wanted, lowest)


def _chosen_queues(
    layout: StoreLayout, config: StoreConfig, topic: str | None, queue_id: int | None
) -> Iterator[QueueFolder]:
    """The queues that `-t` and `-q` choose.

    Raises:
        ConfigError: there is no such topic or queue.
    """
    from reput.errors import ConfigError
    from reput.files import fs
    from reput.queue.files import list_topic_queues
    from reput.store.layout import refuse_what_we_cannot_build

    topics = [entry.name for entry in fs.list_dir(layout.consume_queue) if entry.is_dir]
    if not topics or (topic is not None and topic not in topics):
        # Queues of another kind may have it.
        refuse_what_we_cannot_build(layout, config)
    if not topics:
        raise ConfigError(f"{layout.consume_queue}: no queues. `reput rebuild --only queue` builds them from the log")
    if topic is not None and topic not in topics:
        raise ConfigError(f"{layout.consume_queue}: no topic {topic}. There are: {_some(topics)}")
    seen, found = set(), False
    for name in topics if topic is None else [topic]:
        for folder in list_topic_queues(layout.consume_queue / name):
            seen.add(folder.queue_id)
            if queue_id is None or folder.queue_id == queue_id:
                found = True
                yield folder
    if not found:
        where = layout.consume_queue / topic if topic else layout.consume_queue
        asked = "no queues" if queue_id is None else f"no queue {queue_id}"
        raise ConfigError(f"{where}: {asked}. There are: {_some([str(number) for number in sorted(seen)])}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return (", ".join(names[:_NAMES_SHOWN]) or "none") + more


def _show_entry(
    files: LogFiles,
    folder: QueueFolder,
    number: int,
    entry: Entry,
    records: bool,
    body_bytes: int | None,
    as_json: bool,
) -> str | None:
    """Show one entry; returns what does not fit it, unless its record has only expired."""
    record, fault = _record_of(files, folder, number, entry) if records else (None, None)
    if as_json:
        value: dict[str, Any] = {
            "topic": folder.topic,
            "queue_id": folder.queue_id,
            "queue_offset": number,
            **entry._asdict(),
            "pre_blank": entry.is_pre_blank,
        }
        if records:
            value["record"] = None if record is None else record_values(record, body_bytes)
            value["fault"] = fault
        output.emit_json(value)
    else:
        cells = [f"{_line(folder.topic)}/{folder.queue_id}", str(number), *map(str, entry)]
        if entry.is_pre_blank:
            cells.append("(pre-blank)")
        elif record is not None:
            cells += record_cells(record, body_bytes)
        output.show("\t".join(cells))
    return fault if entry.physical_offset >= files.min_offset else None


def _record_of(files: LogFiles, folder: QueueFolder, number: int, entry: Entry) -> tuple[Record | None, str | None]:
    """The record that an entry points to, and what does not fit."""
    from reput.log.reader import LogRecord, place, record_at

    if entry.is_pre_blank:
        return None, None
    if entry.physical_offset < files.min_offset:
        return None, f"its record at log offset {entry.physical_offset} has expired"
    found = record_at(files, entry.physical_offset)
    if not isinstance(found, LogRecord):
        return None, f"the entry points to {place(files, entry.physical_offset)}, where there is {found.meaning}"
    record = found.decode()
    told = (_text(record.topic), record.queue_id, record.queue_offset, record.size)
    if told != (folder.topic, folder.queue_id, number, entry.size):
        return record, (
            f"the entry, of {entry.size} bytes, points to {place(files, entry.physical_offset)}, the record of "
            f"{told[0]}/{told[1]} offset {told[2]}, {told[3]} bytes"
        )
    return record, None


# --- items of IndexFiles --------------------------------------------------------------------------


@dump.command()
@options.store_argument
@click.option("-k", "--key", help="Follow this key's chain in each file, newest first; a tag's key is T#TAG. Needs -t.")
@click.option("-t", "--topic", help="The topic of -k.")
@click.option("-f", "--file", "file_name", help="Only the IndexFile of this name.")
@click.option("-o", "--offset", type=int, help="Begin with this item of each file; a negative one counts from the end.")
@_count_option("items of each file")
@options.config_options
@_json_option
def index(
    store: str,
    key: str | None,
    topic: str | None,
    file_name: str | None,
    offset: int | None,
    count: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the IndexFiles of STORE: each file's header, then its items.

    Text has a line an item, with tabs between item number, key hash, log offset, store time, slot and the number of the
    item before in that slot. With -k, keys that share the slot show too: a `*` marks the items with the key's hash.

    \b
    reput dump index /data/store -c 10
    reput dump index /data/store -t orders -k order-4711
    """  # noqa: D301 - click wants the control character
    from reput.errors import ConfigError, DamagedStoreError
    from reput.index.files import list_index_files
    from reput.index.reader import open_index_files
    from reput.store.layout import find_store

    if (key is None) != (topic is None):
        raise ConfigError("-k and -t go together: a key is looked up under its topic")
    config = options.config_of(config_path, assignments, store)
    layout = find_store(store, config)
    files = list_index_files(layout.index)
    if not files:
        raise ConfigError(f"{layout.index}: no IndexFiles. `reput rebuild --only index` builds them from the log")
    if file_name is not None:
        names = [file.path.name for file in files]
        if file_name not in names:
            raise ConfigError(f"{layout.index}: no IndexFile {file_name}. There are: {_some(names)}")
        files = [file for file in files if file.path.name == file_name]
    code = 0
    for reader in open_index_files(files if key is None else files[::-1], config):
        if fault := reader.faults():
            output.say(f"damage: {fault}")
            code = 1
        _show_header(reader, as_json)
        try:
            _show_items(reader, _key_bytes(topic, key), offset, count, as_json)
        except DamagedStoreError as error:
            output.say(f"damage: {error}")
            code = error.exit_code
    return code


def _key_bytes(topic: str | None, key: str | None) -> bytes | None:
    return None if key is None else f"{topic}#{key}".encode("utf-8", "surrogateescape")


def _show_header(reader: IndexReader, as_json: bool) -> None:
    header = reader.file.header
    assert header is not None, "files without a header are refused when they are opened"
    if as_json:
        output.emit_json(
            {
                "kind": "header",
                "file": reader.file.path.name,
                **header._asdict(),
                "items": reader.count,
                "slots": reader.slots,
                "items_max": reader.items_max,
            }
        )
        return
    output.show(
        f"{reader.file.path.name}: {reader.count} items of {reader.items_max - 1}, {header.hash_slot_count} of "
        f"{reader.slots} slots in use, log offsets {header.begin_physical_offset} to {header.end_physical_offset}, "
        f"{output.time_text(header.begin_timestamp)} to {output.time_text(header.end_timestamp)}"
    )


def _show_items(reader: IndexReader, key: bytes | None, offset: int | None, count: int | None, as_json: bool) -> None:
    from reput.formats.hashing import index_key_hash

    if key is not None:
        key_hash = index_key_hash(key)
        for item in islice(reader.chain(key), count):
            _show_item(reader, item, item.key_hash == key_hash, as_json)
        return
    begin = _begin(offset, 1, reader.count + 1, reader.file.path.name)
    for item in reader.items(begin, reader.count if count is None else count):
        _show_item(reader, item, None, as_json)


def _show_item(reader: IndexReader, item: Item, is_match: bool | None, as_json: bool) -> None:
    header = reader.file.header
    assert header is not None, "files without a header are refused when they are opened"
    # Seconds are all that an item keeps of the time.
    stored = header.begin_timestamp + item.time_diff_s * 1000
    slot = item.key_hash % reader.slots
    if as_json:
        match = {} if is_match is None else {"same_hash": is_match}
        output.emit_json(
            {
                "kind": "item",
                "file": reader.file.path.name,
                **item._asdict(),
                "slot": slot,
                "about_timestamp": stored,
                **match,
            }
        )
        return
    cells = [item.number, item.key_hash, item.physical_offset, output.time_text(stored), slot, item.previous_item]
    mark = "\t*" if is_match else ""
    output.show("\t".join(map(str, cells)) + mark)


# --- text -----------------------------------------------------------------------------------------


def _head(as_json: bool, names: Sequence[str]) -> None:
    """The names of the columns, for people only: what a program reads has the lines alone."""
    if not as_json and sys.stdout.isatty():
        output.show("\t".join(names))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _line(text: str) -> str:
    """Text that stays in its cell."""
    return text.replace("\n", "\\n").replace("\t", "\\t")
