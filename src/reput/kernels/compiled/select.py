"""Walk a queue's entries and choose those that a pull returns."""

from __future__ import annotations

from reput.formats.queue import consume_queue as fmt
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, load_be32, load_be64
from reput.kernels.layouts.columns import Choice, Pull

_ENTRY_SIZE = fmt.ENTRY_SIZE
_SIZE_AT, _TAGS_CODE_AT = fmt.ENTRY.offsets["size"], fmt.ENTRY.offsets["tags_code"]
_BLANK_SIZES = fmt.PRE_BLANK_SIZE, fmt.LAST_BLANK_SIZE
_NOTHING, _FOUND, _REMOVED = int(Pull.NOTHING), int(Pull.FOUND), int(Pull.REMOVED)


@kernel
def is_blank(physical_offset, size):
    """Return True if an entry only fills a place; the twin of `reput.formats.queue.consume_queue.is_blank`."""
    return physical_offset == 0 and size in _BLANK_SIZES


@kernel
def select_entries(entries, rules, places):
    """Choose the entries of a pull; write log offset and size of each, one after the other, to `places` (int64).

    `entries` (uint8, 20 bytes each) are all that may be read; see the twin.
    """
    log_begin, log_end, log_file_size, codes, max_messages, max_bytes, stop_bytes = rules
    at = address_of(entries)
    count = len(entries) // _ENTRY_SIZE
    taken, total, skip_below, first, last, damaged, unordered = 0, 0, -1, -1, -1, -1, -1
    status = _NOTHING
    for number in range(count):
        begin, length = load_be64(at), load_be32(at + _SIZE_AT)
        if taken > 0 and (taken + 1 > max_messages or total + length > max_bytes):
            return Choice(taken, number, status, first, last, damaged, unordered)
        if total >= stop_bytes:
            return Choice(taken, number, status, first, last, damaged, unordered)
        code = load_be64(at + _TAGS_CODE_AT)
        at += _ENTRY_SIZE
        if begin < skip_below or is_blank(begin, length):
            continue
        if len(codes) > 0:
            low = ((code + 0x80000000) & 0xFFFFFFFF) - 0x80000000
            matches = False
            for wanted in codes:
                matches |= wanted == low
            if not matches:
                if taken == 0:
                    status = _NOTHING
                continue
        if length <= 0 or begin > log_end - length:
            if taken == 0:
                status = _REMOVED
            if damaged < 0:
                damaged = number
            continue
        if begin < log_begin:
            if taken == 0:
                status = _REMOVED
            skip_below = (begin // log_file_size + 1) * log_file_size
            continue
        if taken > 0 and unordered < 0 and begin <= places[2 * taken - 2]:
            unordered = number
        if taken == 0 or begin < first:
            first = begin
        last = max(last, begin)
        places[2 * taken] = begin
        places[2 * taken + 1] = length
        taken += 1
        total += length
        status = _FOUND
        skip_below = -1
    return Choice(taken, count, status, first, last, damaged, unordered)
