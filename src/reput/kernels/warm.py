"""Load the kernels' machine code by calling each once on next to nothing; what is not cached is compiled."""

from __future__ import annotations

import numpy as np

from reput.formats.index.index_file import ITEM_SIZE
from reput.formats.log.record import CHECK_BODY, Record, encode_record
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.kernels import (
    backlog_kernels,
    client_kernels,
    encode_kernels,
    field_kernels,
    filter_kernels,
    kernels,
    key_kernels,
    line_kernels,
    lookup_kernels,
    many_kernels,
    place_kernels,
    table_kernels,
)
from reput.kernels.layouts.batch import BATCH_LAYOUT, BatchAt
from reput.kernels.layouts.columns import Columns, DecodeRules, ItemRange, PullRules
from reput.kernels.layouts.fields import (
    COUNT_PAIRS,
    FIND_PROPERTIES,
    FieldRow,
    Gathered,
    GatheredPairs,
    Stretches,
    field_table,
)
from reput.kernels.layouts.filter import FoundTexts, NumberTest, PropertyPlaces, TextList
from reput.kernels.layouts.keys import KeyOutput, KeySources, key_state
from reput.kernels.layouts.lines import LineProgram, line_table
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.table import MOST_RESTARTS, EntryPieces, Prefixes, TableBlockAt, TableStateAt
from reput.kernels.layouts.vectors import address_of
from reput.kernels.pack import pack_entries


def warm_kernels() -> None:
    """Call every kernel once, with arrays as the pipeline passes them."""
    data = encode_record(Record(b"warm", b"body", b"KEYS\x01key\x02"))
    # A map of a file is read-only, and numba compiles for that apart from what can be written.
    buffer = np.frombuffer(data, dtype=np.uint8)
    columns = Columns(1, 4, 1)
    run = kernels()
    log = LogBytes.whole(buffer, 0)
    run.find_boundary(log, 0, len(data), CHECK_BODY)
    delays_ms = np.array([-1, 1000], dtype=np.int64)
    rules = DecodeRules(CHECK_BODY, True, delays_ms)
    run.decode_range(log, 0, len(data), rules, columns.arrays)
    pack_entries(columns.queues, EntrySources.of(columns))
    slots, out = np.zeros(1, dtype=np.int32), np.empty(ITEM_SIZE, dtype=np.uint8)
    run.chain_items(columns.item_sources, ItemRange(0, 0, 1, 1, 0), slots, out)


def warm_store_kernels() -> None:
    """Call once every kernel that an open store needs for puts, pulls and look-ups."""
    warm_kernels()
    warm_select_kernel()
    warm_backlog_kernels()
    warm_encode_kernels()
    warm_client_kernels()
    lookup_kernels()
    many_kernels()


def warm_select_kernel() -> None:
    """Call the kernel of pulls with filters once, with entries of a file and with those of a tail."""
    run, none, places = kernels(), np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    rules = PullRules(0, 0, 1, none, 1, 1, 1)
    for entries in (np.zeros(ENTRY_SIZE, dtype=np.uint8), np.frombuffer(bytes(ENTRY_SIZE), dtype=np.uint8)):
        run.select_entries(entries, rules, places)


def warm_filter_kernels() -> None:
    """Call every kernel of SQL92 filters once, with arrays as pulls pass them."""
    data = encode_record(Record(b"warm", b"body", b"a\x015\x02"))
    buffer = np.frombuffer(data, dtype=np.uint8)
    names = TextList.of([b"a"])
    at, size, found = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.bool_)
    status = np.zeros(1, dtype=np.uint8)
    values = FoundTexts.empty(1, 1)
    run = filter_kernels()
    run.find_values(PropertyPlaces(buffer, at, size, True), names, values)
    texts = values.of_name(0, buffer)
    run.first_bytes(texts)
    run.is_one_of(texts, names, False, 0, status)
    run.is_same(texts, texts, found)
    run.holds_text(texts, names.data, False, False, found)
    run.has_wide(texts, found)
    run.compare_whole(texts, NumberTest(0, 1, 0, 0, 1), status)
    run.compare_double(texts, NumberTest(0, 1, 0), status)
    run.read_double(texts, np.zeros(1, dtype=np.float64), status)
    run.join_codes(np.zeros(16, dtype=np.uint8), status, status, status)


def warm_backlog_kernels() -> None:
    """Call the kernels of an open store's backlog once, with arrays as the tail passes them."""
    run, sources = backlog_kernels(), EntrySources.of(Columns(1, 4, 1))
    table = Columns(1, 4, 1)
    one, none = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32)
    run.number_rows(sources.queue, sources.flags, none, none, none)
    run.chain_entries(sources, 0, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64), none, one)
    run.take_chains(np.empty(0, dtype=np.int64), none, none, np.zeros(1, dtype=np.int64), none)
    addresses = table.queue_table.addresses()
    run.find_row(b"warm", 0, 0, address_of(addresses))


def warm_encode_kernels() -> None:
    """Call the kernels that write records once, with a batch of no messages."""
    batch = np.zeros(BATCH_LAYOUT.word_count, dtype=np.int64)
    table, hashes = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64)
    at, table_at, hashes_at = (address_of(array) for array in (batch, table, hashes))
    batch[BatchAt.table_at], batch[BatchAt.hash_at] = table_at, hashes_at
    run = encode_kernels()
    run.add_queue(at, 0, at, 0, 0)
    run.lay_out(at)
    run.write_records(at, 0, 0, 0, 0, at)
    place_kernels()


def warm_client_kernels() -> None:
    """Load the kernels of clients' batches: they are compiled as they are loaded."""
    client_kernels()


def warm_field_kernels() -> None:
    """Call the kernels that make Arrow columns of records once, with arrays as `reput.connect` passes them."""
    data = encode_record(Record(b"warm", b"body", b"KEYS\x01key\x02"))
    buffer, run = np.frombuffer(data, dtype=np.uint8), field_kernels()
    places = RecordPlaces(np.zeros(1, dtype=np.int64), np.array([len(data)], dtype=np.int32))
    table = field_table(1)
    run.read_fields(LogBytes.whole(buffer, 0), places, CHECK_BODY, FIND_PROPERTIES | COUNT_PAIRS, table)
    one, other = (Gathered.empty(1, len(data)) for _ in range(2))
    run.gather_bytes(Stretches.of(buffer, table, FieldRow.BODY_AT), one)
    pairs = GatheredPairs(np.zeros(2, dtype=np.int32), one, other)
    run.gather_pairs(Stretches.of(buffer, table, FieldRow.PROPERTIES_AT), pairs)
    hosts = Stretches.of(buffer, table, FieldRow.STORE_HOST_AT)
    run.are_equal(hosts)
    run.spell_ids(hosts, places.position, one)


def warm_line_kernels() -> None:
    """Call the kernel that writes lines once, with arrays as `reput.cli.shared.lines` passes them."""
    nothing = np.frombuffer(b"warm", dtype=np.uint8)
    lines = LineProgram(np.zeros((0, 3), dtype=np.int64), nothing, np.zeros(1, dtype=np.int64))
    line_kernels().write_lines(nothing, line_table(1), 0, lines, np.empty(1, dtype=np.uint8))


def warm_table_kernels() -> None:
    """Call the kernels of RocksDB's tables once, with arrays as the writer of tables passes them."""
    # A prefix lies in bytes of Python, and numba compiles for that apart from what can be written.
    prefix, none = np.frombuffer(b"warm", dtype=np.uint8), np.zeros(0, dtype=np.int64)
    out, restarts = np.empty(1, dtype=np.uint8), np.zeros(MOST_RESTARTS, dtype=np.uint32)
    blocks, state = np.zeros((1, len(TableBlockAt)), dtype=np.int64), np.zeros(len(TableStateAt), dtype=np.int64)
    run = table_kernels()
    prefixes, pieces = Prefixes(prefix, np.array([0, 4])), EntryPieces(none, none, none, none)
    run.fill_blocks(prefixes, pieces, out, restarts, blocks, state)
    run.hash_bytes(b"warm")
    columns = Columns(1, 1, 1)
    sources = EntrySources.of(columns)
    run.pack_values(sources, columns.store_timestamp[:0], np.zeros(1, dtype=np.int64), out)


def warm_key_kernels() -> None:
    """Call the kernel of the index database's keys once, with arrays as the pipeline passes them."""
    columns = Columns(1, 1, 1)
    buffer = np.frombuffer(b"warm", dtype=np.uint8)
    key_kernels().gather_keys(LogBytes.whole(buffer, 0), KeySources.of(columns), KeyOutput.for_keys(1, 0), key_state())
