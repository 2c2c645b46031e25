"""The keys of the index database, from the properties of decoded records.

The twin of `reput.kernels.reference.keys`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.index import index_database as fmt
from reput.formats.log.record import CHECK_NONE
from reput.kernels.compiled.decode import find_properties, next_space
from reput.kernels.compiled.examine import GOOD, PROPERTIES_LENGTH_SIZE, examine_parts
from reput.kernels.compiled.tools.hashing import put_java_text
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, copy_bytes, store_8, store_be64
from reput.kernels.layouts.columns import IN_INDEX
from reput.kernels.layouts.keys import MOST_KEY_BYTES, KeyStateAt

_HOUR_MS, _CHECK_NONE, _MOST_KEY_BYTES = fmt.HOUR_MS, CHECK_NONE, MOST_KEY_BYTES
_AT = fmt.SEPARATOR[0]
_HOUR_SIZE, _OFFSET_SIZE = fmt.HOUR.size, fmt.OFFSET.size
_KEY, _TAG, _UNIQUE = fmt.KEY[0], fmt.TAG[0], fmt.UNIQUE[0]


@kernel
def _put_byte(at, byte):
    store_8(at, np.uint8(byte))
    return at + 1


@kernel
def _put_key(at, hour_ms, topic, topic_end, kind, text, text_end, unique, unique_end, position):
    """Write a key to an address; return the address after it. Without a text the key is that of the unique key."""
    store_be64(at, hour_ms)
    at = _put_byte(at + _HOUR_SIZE, _AT)
    copy_bytes(at, topic, topic_end - topic)
    at = _put_byte(at + topic_end - topic, _AT)
    at = _put_byte(_put_byte(at, kind), _AT)
    if text_end > text:
        at = _put_byte(put_java_text(at, text, text_end), _AT)
    at = _put_byte(put_java_text(at, unique, unique_end), _AT)
    store_be64(at, position)
    return at + _OFFSET_SIZE


@kernel
def gather_keys(log, sources, out, state):
    """Write the keys of records from `state` on; see the twin."""
    buffer, base, limit = log
    position, store_timestamp, flags = sources
    text, end, times = out
    data, start = address_of(buffer), address_of(text)
    last, furthest = data + limit, start + len(text) - _MOST_KEY_BYTES
    n, done, keys = state[KeyStateAt.record], state[KeyStateAt.done], state[KeyStateAt.keys]
    at = start + end[keys]
    while n < len(position):
        time, number, is_full = store_timestamp[n], 0, False
        if flags[n] & IN_INDEX and time >= _HOUR_MS:
            record = data + position[n] - base
            verdict, size, _, topic, topic_end, _ = examine_parts(record, last, position[n], _CHECK_NONE)
            if verdict == GOOD:
                found = find_properties(topic_end + PROPERTIES_LENGTH_SIZE, record + size, last)
                unique, unique_end, key, keys_end, tags, tags_end = found[:6]
                hour_ms = time // _HOUR_MS * _HOUR_MS
                # The keys, then the tag, then the unique key.
                stage = 0 if unique_end > unique else 3
                while stage < 3:
                    kind, value, value_end = _KEY, key, key
                    if stage == 0:
                        if key >= keys_end:
                            stage = 1
                            continue
                        value_end = next_space(key, keys_end, last)
                        key = value_end + 1
                        if value_end == value:
                            continue
                    elif stage == 1:
                        stage = 2
                        if tags_end == tags:
                            continue
                        kind, value, value_end = _TAG, tags, tags_end
                    else:
                        stage = 3
                        kind = _UNIQUE
                    number += 1
                    if number <= done:
                        continue
                    if keys == len(times) or at > furthest:
                        is_full = True
                        break
                    at = _put_key(
                        at, hour_ms, topic, topic_end, kind, value, value_end, unique, unique_end, position[n]
                    )
                    keys += 1
                    end[keys], times[keys - 1] = at - start, time
        if is_full:
            done = number - 1
            break
        if number:
            state[KeyStateAt.last_record] = position[n]
            state[KeyStateAt.store_timestamp] = max(state[KeyStateAt.store_timestamp], time)
        n += 1
        done = 0
    state[KeyStateAt.record], state[KeyStateAt.done], state[KeyStateAt.keys] = n, done, keys
    return keys
