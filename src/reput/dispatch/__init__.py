"""From record columns to queue entries and index items, and the filters that decide about them.

Pure functions over arrays: no file is read here. May import kernels and formats.
"""
