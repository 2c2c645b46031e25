"""The only code that changes files: open, map, write, sync, rename, lock, and databases of files.

Here faults are injected, and here one reads what is durable. May import `formats`, `kernels` and `errors`.
"""
