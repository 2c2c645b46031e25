"""RocksDB itself: its tables, its MANIFEST and their checksum. Keys and values are with what they describe.

May import `layout`.
"""
