"""Bytes to values and back, pure: no files, no clock, no threads, no Spark.

One format a module, its table at the top, its sizes asserted beside it; some modules have names and hashes that formats
share. All integers are big-endian and signed, as Java's `ByteBuffer` writes them, except lengths in keys of
`metadata_v2`, reput's own `watermarks` file and RocksDB's tables. `scripts/formats.py` writes docs/formats.md from the
tables. May import errors.
"""
