"""The arrays and vectors that kernels are called with, made once for both twins.

May import `formats` and `errors`. A kernel reads a word of a vector by its Layout, and the parts of a record by the
layouts of `formats/log/record.py`: no offset is typed by hand.

A kernel is called in one of two ways. Those that run over many records take named tuples of arrays, which say what
belongs together. Those that answer one question (`lookup`, `batch`, a row of the table of queues) take the address of
a vector of numbers: numba takes 2 us to look at a named tuple, more than such an answer takes. For the same reason the
kernels of the backlog, which run once a put, take their five or six arrays one by one.
"""
