"""From a record to its entries in the index database: one for each key, for the tag, and last for the unique key.

As in IndexFiles, all messages but rolled-back ones are indexed. A message without a unique key is not, and neither is
one from before the second hour of 1970.

Source: `IndexRocksDBStore.buildIndex`, `IndexRocksDBRecord.getKeyBytes`.
"""

from __future__ import annotations

from reput.formats import index_database as fmt
from reput.formats import properties as props
from reput.formats.hashing import java_text
from reput.formats.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK, Record

_NO_KEYS: tuple[bytes, ...] = ()


def index_keys(record: Record) -> tuple[bytes, ...]:
    """Return the keys of a record's entries; each has the store time as its value. The last one is the unique key's."""
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return _NO_KEYS
    named = props.decode_properties(record.properties)
    unique = named.get(props.UNIQ_KEY)
    if not unique or not record.topic or record.store_timestamp <= 0:
        return _NO_KEYS
    hour_ms = fmt.hour_of(record.store_timestamp)
    if hour_ms <= 0:
        return _NO_KEYS
    texts = [
        (fmt.KEY, key + fmt.SEPARATOR + unique)
        for key in dict.fromkeys(named.get(props.KEYS, b"").split(props.KEY_SEPARATOR))
        if key
    ]
    if tags := named.get(props.TAGS):
        texts.append((fmt.TAG, tags + fmt.SEPARATOR + unique))
    texts.append((fmt.UNIQUE, unique))
    topic = java_text(record.topic)
    return tuple(
        fmt.entry_key(fmt.IndexKey(hour_ms, topic, kind, java_text(text), record.physical_offset))
        for kind, text in texts
    )
