"""Run the compiled kernels over hostile bytes between guard pages; started by test_memory_safety.py.

python hostile_bytes.py NOTE SEED CASES      cases SEED, SEED + 1, ...; the file NOTE names the current one
python hostile_bytes.py NOTE canary-end      must die: reads after the buffer
python hostile_bytes.py NOTE canary-start    must die: reads before it
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from copy import copy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from reput.files.maps import MapTable
from reput.formats.index.index_file import ITEM_SIZE
from reput.formats.java.hashing import index_key_hash
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.record import CHECK_NONE, FLAG_BORN_HOST_V6, FLAG_STORE_HOST_V6, MAGIC_V1, MAGIC_V2
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.kernels import (
    client_kernels,
    field_kernels,
    filter_kernels,
    kernels,
    key_kernels,
    line_kernels,
    lookup_kernels,
)
from reput.kernels.compiled.client_batch import split_columns
from reput.kernels.compiled.tools.crc import crc32
from reput.kernels.layouts.batch import BatchAt
from reput.kernels.layouts.client_batch import column_sizes, most_rows
from reput.kernels.layouts.columns import (
    IN_QUEUE,
    Columns,
    DecodeRules,
    FurtherEntries,
    FurtherRecords,
    ItemRange,
    StateAt,
    Stop,
)
from reput.kernels.layouts.fields import COUNT_PAIRS, FIND_PROPERTIES, FieldRow, field_table
from reput.kernels.layouts.filter import FoundTexts, NumberTest, PropertyPlaces, TextList
from reput.kernels.layouts.keys import KEY_STATE_LAYOUT, MOST_KEY_BYTES, KeyOutput, KeySources, KeyStateAt, key_state
from reput.kernels.layouts.lines import ROWS, LinePiece, LineProgram, Stopped
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.kernels.layouts.lookup import (
    FIRST_PLACE,
    INDEX_LAYOUT,
    QUEUE_LAYOUT,
    WATCH_LAYOUT,
    AnswersAt,
)
from reput.kernels.layouts.pack import EntrySources, Packed
from reput.kernels.layouts.vectors import address_of, vector_of, words_of
from reput.log.append.settings import LogSettings
from reput.log.encode.column_batch import ColumnBatches
from reput.log.encode.encode import RecordEncoder
from reput.log.encode.message import MessageRefusedError
from reput.log.encode.queue_directory import EncodeBuffer, QueueDirectory
from reput.log.encode.topics import TopicTable
from support.guarded import GuardedRoom, guard_outputs, guarded_array
from support.hashes import java_hash
from support.lookups import NO_BOUNDS, topic_vector
from support.records import BAD_TOPICS, GOOD_TOPICS, LEVELS, NAMES, TEXTS, LogBuilder, Placed
from support.twins import DELAYS_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROOM = GuardedRoom(1 << 14)
TEXTS_ROOM = GuardedRoom(13)
STRETCHES = (
    FieldRow.BODY_AT, FieldRow.TOPIC_AT, FieldRow.PROPERTIES_AT, FieldRow.KEYS_AT, FieldRow.TAGS_AT,
    FieldRow.UNIQUE_KEY_AT,
)  # fmt: skip
ENTRIES, INDEX = [GuardedRoom(100) for _ in range(2)], GuardedRoom(200)
LENGTHS = (0, 1, 0x5A, 0x5B, 0x7F, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LISTS = (b"%LMQ%a,%LMQ%b", b"1,2", b"%LMQ%a,x,y/z,%LMQ%", b"0,1,2,3", b",", b"3,,4", b"%LM")
LENGTH_FIELDS_AT = (0, 12, 20, 28, 36, 80, 84, 96, 108)
CAPACITIES = ((1, 2, 1), (2, 3, 2), (8, 4, 8), (40, 200, 40))
BATCHES = ColumnBatches(
    QueueDirectory(TopicTable({}, 0, True), RecordEncoder(LogSettings().store_host, append_crc=False), 4000)
)
KEYS = KeyOutput(guarded_array(MOST_KEY_BYTES, np.uint8), guarded_array(4, np.int64), guarded_array(3, np.int64))
KEYS.end[0] = 0
COLUMNS = [guard_outputs(Columns(*capacity)) for capacity in CAPACITIES]


def properties(chance: Random) -> bytes:
    """Properties of any shape, so that names and values begin and end everywhere."""
    pieces = (
        chance.choice(NAMES)
        + chance.choice((b"\x01", b"\x01", b"\x01", b""))
        + chance.choice((*TEXTS, *LEVELS, *LISTS, b"", chance.randbytes(chance.randrange(40))))
        for _ in range(chance.randrange(7))
    )
    return b"\x02".join(pieces) + chance.choice((b"\x02", b""))


def hostile_log(chance: Random) -> bytes:
    """A log that is cut, bent and spoilt."""
    log = LogBuilder(1 << 14, append_crc=chance.random() < 0.3)
    for _ in range(chance.randrange(1, 8)):
        log.message(
            chance.choice(GOOD_TOPICS * 3 + BAD_TOPICS),
            queue_id=chance.choice((0, 1, 2, -1)),
            body=chance.randbytes(chance.randrange(80)),
            properties=properties(chance),
            sys_flag=chance.randrange(1 << 11),
            magic=-626843477,
        )
    if chance.random() < 0.3:
        # A short last record: its fields reach the end soonest.
        log.message("t", body=b"", properties=b"", magic=chance.choice((MAGIC_V1, MAGIC_V2)))
    data = bytearray(bytes(log))
    places = [placed.offset for placed in log.placed]
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        place = chance.choice(places)
        match chance.randrange(5):
            case 0:
                at = min(place + chance.choice(LENGTH_FIELDS_AT), len(data) - 4)
                data[at : at + 4] = chance.choice(LENGTHS).to_bytes(4)
            case 1:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 2:
                # A size that reaches the very end, so that the bytes there are looked at.
                data[place : place + 4] = (len(data) - place).to_bytes(4)
            case 3:
                reach_the_end(chance, data, chance.choice((log.placed[-1], chance.choice(log.placed))))
            case _:
                at = chance.randrange(len(data))
                data[at : at + 4] = chance.choice((b"\x01\x02\x01\x02", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80\xff"))
    if chance.random() < 0.4:
        del data[chance.randrange(len(data)) :]
    elif chance.random() < 0.2:
        data += chance.randbytes(chance.randrange(40))
    return bytes(data)


def reach_the_end(chance: Random, data: bytearray, placed: Placed) -> None:
    """Make the hosts, the body or the topic of a record end within a few bytes of its end."""
    record, end = placed.record, placed.size + chance.randint(-3, 2)
    size = 1 + (record.magic == MAGIC_V2)
    topic_at = placed.size - len(record.properties) - 2 - len(record.topic)
    body_at = topic_at - size - len(record.body)
    match chance.randrange(3):
        case 0:
            data[placed.offset + 39] |= FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6
        case 1:
            at = placed.offset + body_at - 4
            data[at : at + 4] = max(end - body_at, 0).to_bytes(4)
        case _:
            at = placed.offset + topic_at - size
            data[at : at + size] = min(max(end - topic_at, 0), 127).to_bytes(size)


def run_case(chance: Random, buffer: NDArray[np.uint8], positions: list[int]) -> None:
    """Every kernel over one buffer, with `limit` at its very end."""
    twin, size = kernels("compiled"), len(buffer)
    crc_check = chance.randrange(3)
    log = LogBytes.whole(buffer, 0)
    found = twin.find_boundary(log, chance.randrange(size + 1), size, crc_check)
    # What decoding is made of, up to the very end from anywhere.
    place = chance.randrange(size + 1)
    crc32(buffer, place, size)
    java_hash(buffer, place, size, 0)
    columns = chance.choice(COLUMNS)
    look_up(chance, buffer, positions)
    for begin in {0, max(found, 0), *positions}:
        columns.clear()
        position, stop = begin, Stop.RECORDS_FULL
        while stop in (Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL) and position < size:
            rules = DecodeRules(crc_check, True, DELAYS_MS)
            stop = Stop(twin.decode_range(log, position, size, rules, columns.arrays))
            use(columns)
            use_further(log, columns)
            use_keys(log, columns)
            if position == columns.state[StateAt.position]:
                break
            position = int(columns.state[StateAt.position])
            columns.clear()


def look_up(chance: Random, buffer: NDArray[np.uint8], positions: list[int]) -> None:
    """The lookup kernels over queues and an IndexFile that point anywhere; the log's file ends with the buffer."""
    run, size = lookup_kernels("compiled"), max(1, len(buffer))
    log, files = MapTable(0, 2, 2), MapTable(0, 2, 2)
    log.put(0, buffer)
    log.put(1, None)
    entries = b"".join(
        struct.pack(">qiq", near(chance, positions, size), chance.choice((*range(90, 99), 1, 0x7FFFFFFF, -1)), 0)
        for _ in range(2 * 5)
    )
    queue_files = [ENTRIES[n].at_end(entries[n * 100 : n * 100 + 100]) for n in range(2)]
    for number, file in enumerate(queue_files):
        files.put(number, file)
    watch = dict.fromkeys(WATCH_LAYOUT.offsets, 0) | {
        "log_at": log.address, "log_file_size": size, "log_end": size
    }  # fmt: skip
    times = guarded_array(1 + chance.randrange(4), np.int64)
    times[:] = 0
    queue = vector_of(
        QUEUE_LAYOUT,
        **watch,
        first=0,
        end=10,
        file_entries=5,
        files_at=files.address,
        window_begin=5,
        window_end=10,
        entries_at=address_of(queue_files[1]),
        is_last=chance.randrange(2),
        records_begin=0,
        records_end=size,
        **NO_BOUNDS,
        times_at=address_of(times),
        time_count=len(times),
    )
    for offset in range(4, 11):
        answers = guarded_answers(chance)
        run.pull_entries(address_of(queue), offset, 3, 1000, address_of(answers))
    for _ in range(8):
        run.seek_time(
            address_of(queue), chance.choice((0, 1 << 40, near(chance, positions, size))), chance.randrange(2)
        )
    slots, items = 2, 6
    data = bytearray(chance.randbytes(40 + slots * 4 + items * 20))
    data[:16] = bytes(16)
    data[36:40] = chance.choice((items - 1, items, items + 1, 1 << 30)).to_bytes(4)
    topic, key = chance.choice(GOOD_TOPICS), chance.choice((b"k", b"key", b"", b"\xc3"))
    for slot in range(slots):
        data[40 + slot * 4 : 44 + slot * 4] = chance.choice((items - 1, items, 1, 3)).to_bytes(4)
    for item in range(items):
        place = near(chance, positions, size)
        data[48 + item * 20 : 68 + item * 20] = struct.pack(
            ">iqii", index_key_hash(topic + b"#" + key), place, 0, chance.randrange(-1, items + 2)
        )
    index_file = INDEX.at_end(bytes(data))
    of_index = words_of(INDEX_LAYOUT, **watch, slots=slots, items=items, below=size, count=1)
    index = np.array([*of_index, address_of(index_file)], dtype=np.int64)
    words = topic_vector(topic, index)
    asked = guarded_array(len(words), np.int64)
    asked[:] = words
    for most in (1, 2, 9):
        answers = guarded_answers(chance)
        run.find_key(address_of(asked), key, most, address_of(answers))


def guarded_answers(chance: Random) -> NDArray[np.int64]:
    """An answer buffer for a few places, before a guard page."""
    words = guarded_array(FIRST_PLACE + chance.randrange(8), np.int64)
    words[AnswersAt.free], words[AnswersAt.end] = FIRST_PLACE, len(words)
    return words


def near(chance: Random, positions: list[int], size: int) -> int:
    """A place in the log, or one beside it."""
    return chance.choice((*positions, size, size - 91, size - 90, size - 40, chance.randrange(size), -1, 0, 1 << 62))


def run_filters(chance: Random, buffer: NDArray[np.uint8], positions: list[int]) -> None:
    """The kernels of filters over bytes at which records begin, or seem to."""
    twin, size = filter_kernels("compiled"), len(buffer)
    places = np.array([*positions, 0, size, -1, chance.randrange(size + 1)], dtype=np.int64)
    count = len(places)
    names = TextList.of([b"TAGS", b"region", b"\xe5\xba\x8f"])
    values = FoundTexts(*(guarded_array(3 * count, kind).reshape(3, count) for kind in (np.int64, np.int32, np.uint64)))
    twin.find_values(PropertyPlaces(buffer, places, guarded_array(0, np.int32), True), names, values)
    found, status = guarded_array(count, np.bool_), guarded_array(count, np.uint8)
    for row in range(3):
        texts = values.of_name(row, buffer)
        twin.first_bytes(texts)
        twin.is_one_of(texts, names, chance.random() < 0.5, 2, status)
        twin.is_same(texts, texts, found)
        twin.holds_text(texts, names.data[:2], chance.random() < 0.5, chance.random() < 0.5, found)
        twin.has_wide(texts, found)
        twin.compare_whole(texts, NumberTest(5, 4, 2, -(1 << 63), (1 << 63) - 1), status)
        twin.compare_double(texts, NumberTest(5, 4, 2), status)
        twin.read_double(texts, guarded_array(count, np.float64), status)


def run_lines(chance: Random, buffer: NDArray[np.uint8], positions: list[int]) -> None:
    """The kernels of fields and lines: stretches of what seem to be records, and stretches and texts anywhere."""
    size, count = len(buffer), len(positions) + 3
    table, one = guarded_array(ROWS * count, np.int64).reshape(ROWS, count), field_table(1)
    anywhere = (-1, 0, 1, 2, 3, 8, size - 1, size, size + 1, 1 << 62, -(1 << 62), chance.randrange(size + 1))
    table[:] = np.array(chance.choices(anywhere, k=ROWS * count)).reshape(ROWS, count)
    for number, place in enumerate(positions):
        position, length = np.array([place]), np.array([int.from_bytes(buffer[place : place + 4].tobytes())])
        wants = FIND_PROPERTIES | COUNT_PAIRS
        places = RecordPlaces(position, length.astype(np.uint32).view(np.int32))
        if field_kernels("compiled").read_fields(LogBytes.whole(buffer, 0), places, CHECK_NONE, wants, one):
            table[: len(FieldRow), number] = one[:, 0]
    pieces = chance.choices(list(LinePiece), k=chance.randrange(1, 5))
    program = guarded_array(3 * len(pieces), np.int64).reshape(-1, 3)
    for step, piece in enumerate(pieces):
        row = chance.choice((*STRETCHES, *STRETCHES, chance.randrange(ROWS - 1)))
        program[step] = piece, row, chance.choice((-1, 0, 1, 2, 3, 1 << 40))
    texts, text_at = TEXTS_ROOM.at_end(b"one text, two"), guarded_array(4, np.int64)
    text_at[:] = 0, 9, 9, 13
    lines = LineProgram(program, texts, text_at)
    out, begin = guarded_array(chance.choice((0, 100, 1000, 20_000)), np.uint8), 0
    while begin < count:
        begin, used, why = line_kernels("compiled").write_lines(buffer, table, begin, lines, out)
        assert used <= len(out)
        begin += why == Stopped.LEFT or (why == Stopped.FULL and not used)


def run_batch(chance: Random) -> None:
    """The encode kernels: offsets that point anywhere, and others when the records are written."""
    rows, held, arrays = chance.randrange(1, 6), [], {}
    for name in ("topic", "body", *chance.sample(("tags", "keys", "unique_key"), chance.randrange(4))):
        data = chance.choice((b"", bytes(chance.choices(b"ab\xc3\x01 ", (20, 20, 1, 1, 1), k=chance.randrange(60)))))
        if name == "topic":
            data = b"topicA" * 5
        wide = chance.random() < 0.5
        offsets = guarded_array(rows + 1, np.int64 if wide else np.int32)
        offsets[:] = sorted(chance.randrange(len(data) + 1) for _ in range(rows + 1))
        texts, valid = guarded_array(len(data), np.uint8), None
        texts[:] = np.frombuffer(data, dtype=np.uint8)
        if name not in {"topic", "body"} and chance.random() < 0.5:
            valid = guarded_array(1, np.uint8)
            valid[0] = chance.randrange(256)
        held.append((offsets, valid))
        buffers = [
            array if array is None else pa.foreign_buffer(address_of(array), array.nbytes, array)
            for array in (valid, offsets, texts)
        ]
        arrays[name] = pa.Array.from_buffers(pa.large_string() if wide else pa.string(), rows, buffers)
    table = pa.record_batch(arrays)
    # Only now: Arrow itself has looked at the first offset and the last.
    for offsets, _ in held:
        bend(chance, offsets, 0.1)
    try:
        batch = BATCHES.batch(table)
    except MessageRefusedError:
        return
    # Laid out once more, into outputs of exactly the size needed.
    scratch = batch._scratch = copy(batch._scratch)
    scratch.rows = 0  # so that no other batch gets it
    vector, directory = scratch.vector, BATCHES.directory
    scratch.queues, scratch.touched = (guarded_array(rows, np.int32) for _ in range(2))
    outputs = batch._sizes, batch._places, batch._numbers = [guarded_array(rows, np.int64) for _ in range(3)]
    places = (BatchAt.queue_at, BatchAt.touched_at, BatchAt.size_at, BatchAt.place_at, BatchAt.number_at)
    for word, array in zip(places, (scratch.queues, scratch.touched, *outputs), strict=True):
        vector[word] = address_of(array)
    vector[BatchAt.done] = vector[BatchAt.size] = vector[BatchAt.touched] = 0
    vector[BatchAt.stamp] = next(directory.stamps)
    assert batch.lay_out()
    for offsets, valid in held:
        bend(chance, offsets, 0.2)
        if valid is not None and chance.random() < 0.2:
            valid[0] = chance.randrange(256)
    records = guarded_array(batch.size, np.uint8)
    directory.piece = EncodeBuffer(records.data, address_of(records))
    with contextlib.suppress(MessageRefusedError):
        batch.encode(lambda *_: None, 0, 0, 1)


def run_split(chance: Random, place: Callable[[bytes], NDArray[np.uint8]]) -> None:
    """The kernel of clients' batches, over a body that is cut or spoilt, into columns of the sizes that it asks for."""
    messages = [
        InnerMessage(0, chance.randbytes(chance.randrange(40)), properties(chance)) for _ in range(chance.randrange(5))
    ]
    data = bytearray(encode_messages(messages))
    for _ in range(chance.randrange(3) if data else 0):
        at = chance.randrange(len(data))
        data[at : at + 4] = chance.choice(LENGTHS).to_bytes(4)
    whole = bytes(data[: chance.choice((len(data), chance.randrange(len(data) + 1)))])
    body, topic = place(whole), place(chance.randbytes(chance.randrange(9)))
    columns = [guarded_array(size, np.uint8) for size in column_sizes(len(whole), len(topic)).values()]
    vector = np.array([address_of(column) for column in columns], dtype=np.int64)
    at, topic_at = address_of(body), address_of(topic)
    rows = split_columns(address_of(vector), at, at + len(whole), topic_at, len(topic), 3, 4)
    assert rows <= most_rows(len(whole))
    offsets, host = place(bytes(8 * max(rows, 0))), chance.randbytes(8)
    out = guarded_array(max(rows * (2 * (len(host) + 8) + 1) - 1, 0), np.uint8)
    client_kernels("compiled").join_ids(host, address_of(offsets), rows, address_of(out))


def bend(chance: Random, offsets: NDArray[np.integer[Any]], often: float) -> None:
    """Now and then, have an offset of a column point somewhere else."""
    if chance.random() < often:
        place = chance.randrange(len(offsets))
        near_by = int(offsets[place]) + chance.choice((-1, 1, -7, 7))
        offsets[place] = chance.choice((near_by, near_by, 0, -1, 5000, -5000, 0x7FFFFFFF, -0x80000000))


def use(columns: Columns) -> None:
    """Pack and chain what was decoded into outputs of exactly the size needed."""
    twin, queues, records = kernels("compiled"), columns.queues, columns.records
    count = int(np.count_nonzero(columns.flags[:records] & IN_QUEUE))
    per_queue = [guarded_array(queues + more, np.int64) for more in (1, 0, 0)]
    packed = Packed(guarded_array(count * ENTRY_SIZE, np.uint8), *per_queue, guarded_array(queues, np.uint8))
    twin.pack_entries(queues, EntrySources.of(columns), packed)
    items = ItemRange(record=0, item=0, item_end=columns.items, number=1, begin_timestamp=0)
    out = guarded_array(columns.items * ITEM_SIZE, np.uint8)
    twin.chain_items(columns.item_sources, items, guarded_array(7, np.int32), out)


def use_further(log: LogBytes, columns: Columns) -> None:
    """The second step over all that was decoded, flagged or not, into outputs of few places."""
    twin, records = kernels("compiled"), columns.records
    position = guarded_array(records, np.int64)
    position[:] = columns.position[:records]
    twin.inner_batches(log, position, guarded_array(records, np.int64), guarded_array(records, np.int16))
    record, queue_id = (guarded_array(records, np.int32) for _ in range(2))
    record[:], queue_id[:] = np.arange(records), 0
    room = 3
    out = FurtherEntries(guarded_array(room, np.int32), guarded_array(room, np.int32), guarded_array(room, np.int64))
    asked = FurtherRecords(record, position, queue_id)
    begin = 0
    while begin < records:
        columns.state[StateAt.further] = 0
        stop, begin = twin.further_queues(log, begin, asked, columns.queue_table, columns.state, out)
        if stop != Stop.REACHED_END:
            begin += 1


def use_keys(log: LogBytes, columns: Columns) -> None:
    """The keys of all that was decoded, for the index database, into an output of few places."""
    state = guarded_array(len(KEY_STATE_LAYOUT.fields), np.int64)
    state[:] = key_state()
    while state[KeyStateAt.record] < columns.records:
        state[KeyStateAt.keys] = 0
        assert key_kernels("compiled").gather_keys(log, KeySources.of(columns), KEYS, state) <= 3


def main(note: str, what: str, cases: int = 0) -> None:
    """Run the cases, or die as a canary."""
    if what.startswith("canary"):
        buffer = ROOM.at_end(bytes(100)) if what == "canary-end" else ROOM.at_start(bytes(100))
        begin, end = (0, 5000) if what == "canary-end" else (-200, 100)
        kernels("compiled").find_boundary(LogBytes(buffer, 0, end), begin, end, 0)
        return
    descriptor = os.open(note, os.O_WRONLY | os.O_CREAT)
    for seed in range(int(what), int(what) + cases):
        os.pwrite(descriptor, f"{seed:<12}".encode(), 0)
        for place in (ROOM.at_end, ROOM.at_start):
            chance = Random(seed)
            data = hostile_log(chance)
            positions = [at for at in range(4, len(data)) if data[at : at + 3] == b"\xda\xa3\x20"]
            run_case(chance, place(data), [at - 4 for at in positions])
            run_filters(chance, place(data), [at - 4 for at in positions])
            run_lines(chance, place(data), [at - 4 for at in positions])
            run_batch(chance)
            run_split(chance, place)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
    Path(sys.argv[1]).write_text("done", encoding="utf-8")
