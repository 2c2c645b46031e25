"""From record columns to queue entries and index items, and the filters that decide about them.

Pure functions over arrays, or over one record: no file is read here. May import kernels and formats.
"""
