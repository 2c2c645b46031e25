"""`reput dump index`: show the headers and items of IndexFiles."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.cli.shared.parts import begin_at
from reput.formats.stored_text import stored_bytes
from reput.nearest import some
from reput.texts import time_text

if TYPE_CHECKING:
    from reput.index.reader import IndexReader, Item


@click.command()
@options.store_argument
@click.option("-k", "--key", help="Follow this key's chain in each file, newest first; a tag's key is T#TAG. Needs -t.")
@stores.topic_option("The topic of -k.")
@click.option("--file", "file_name", help="Only the IndexFile of this name.")
@click.option(
    "--item", type=options.PlaceNumber(), help="Begin with this item of each file; a negative one counts from the end."
)
@options.most_option("The most items of each file.")
@options.config_options
@options.json_lines_option
def index(
    store: str,
    key: str | None,
    topic: str | None,
    file_name: str | None,
    item: int | None,
    max_messages: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the IndexFiles of STORE: each file's header, then its items.

    Text has a line for each item, with tabs between item number, key hash, log offset, store time, slot and the number
    of the previous item in that slot. With -k, items of other keys in the slot show, too: a `*` marks the items with
    the key's hash.

    \b
    reput dump index /data/store -c 10
    reput dump index /data/store -t orders -k order-4711
    """  # noqa: D301 - click wants the control character
    from reput.errors import ConfigError, DamagedStoreError
    from reput.index.reader import open_index_files
    from reput.store.disk.frontier import NO_INDEX_FILE_NEEDED, needs_no_index_file
    from reput.store.disk.purpose import Purpose
    from reput.store.disk.store import StoreOnDisk

    if (key is None) != (topic is None):
        raise click.UsageError("-k and -t go together: the index has each key with its topic")
    config = options.config_of(config_path, assignments, store)
    on_disk = StoreOnDisk.find(store, config, Purpose.LOOK)
    output.say_lines("note", on_disk.wrong_type_texts)
    layout, files = on_disk.layout, on_disk.index_files
    frontier = None if files or file_name is not None else on_disk.frontier
    if frontier is not None and needs_no_index_file(frontier.index_offset, frontier.index_file):
        output.say(f"note: {layout.index}: no IndexFiles; {NO_INDEX_FILE_NEEDED}")
        return 0
    if not files and not on_disk.index_read.has_every_message:
        raise ConfigError(
            f"{layout.index}: no IndexFiles, since the index by key is in {on_disk.index_read.folder}, where "
            "`reput query` looks. `reput convert --index both` makes IndexFiles, too"
        )
    if not files:
        raise ConfigError(f"{layout.index}: no IndexFiles. `reput rebuild --only index` builds them from the log")
    if file_name is not None:
        names = [file.path.name for file in files]
        if file_name not in names:
            raise ConfigError(f"{layout.index}: no IndexFile {file_name}. There are: {some(names)}")
        files = [file for file in files if file.path.name == file_name]
    code = shown = 0
    key_bytes = _key_bytes(topic, key)
    for reader in open_index_files(files if key is None else files[::-1], config):
        if fault := reader.faults():
            output.say(f"damage: {fault}")
            code = 1
        _show_header(reader, as_json)
        try:
            shown += _show_items(reader, key_bytes, item, max_messages, as_json)
        except DamagedStoreError as error:
            output.say(f"damage: {error}")
            code = error.exit_code
    if not shown and max_messages != 0:
        what = "no item" if key is None else f"no item has the hash of {topic}#{key}"
        output.say(f"note: {what} in {output.counted(len(files), 'IndexFile')}")
    return code


def _key_bytes(topic: str | None, key: str | None) -> bytes | None:
    return None if key is None else stored_bytes(f"{topic}#{key}")


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
    times = f", {time_text(header.begin_timestamp)} to {time_text(header.end_timestamp)}"
    output.show(
        f"{reader.file.path.name}: {reader.count} items of {reader.items_max - 1}, {header.hash_slot_count} of "
        f"{reader.slots} slots in use, log offsets {header.begin_physical_offset} to {header.end_physical_offset}"
        f"{times if reader.count else ''}"
    )


def _show_items(reader: IndexReader, key: bytes | None, first: int | None, count: int | None, as_json: bool) -> int:
    """Show the items; return how many match."""
    from reput.formats.java.hashing import index_key_hash

    shown = 0
    if key is not None:
        key_hash = index_key_hash(key)
        for item in islice(reader.chain(key), count):
            is_match = item.key_hash == key_hash
            _show_item(reader, item, is_match, as_json)
            shown += is_match
        return shown
    begin = begin_at(first, 1, reader.count + 1, reader.file.path.name)
    for item in reader.items(begin, reader.count if count is None else count):
        _show_item(reader, item, None, as_json)
        shown += 1
    return shown


def _show_item(reader: IndexReader, item: Item, is_match: bool | None, as_json: bool) -> None:
    header = reader.file.header
    assert header is not None, "files without a header are refused when they are opened"
    # An item has the time only in seconds.
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
    cells = [item.number, item.key_hash, item.physical_offset, time_text(stored), slot, item.previous_item]
    mark = "\t*" if is_match else ""
    output.show("\t".join(map(str, cells)) + mark)
