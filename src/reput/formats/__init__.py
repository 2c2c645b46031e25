"""Bytes to values and back, pure: no files, no clock, no threads, no Spark. A folder for each thing that is described.

One format a module, its table at the top, its sizes asserted beside it; some modules have names and hashes that formats
share. `layout` makes a table, `paths` has the names in a store's folder, `checkpoint` is about log, queues and index.

All integers are big-endian and signed, as Java's `ByteBuffer` writes them, except lengths in keys of
`config.metadata_v2`, reput's own `watermarks` file and RocksDB's tables. `scripts/formats.py` writes docs/formats.md
from the tables. May import errors.
"""
