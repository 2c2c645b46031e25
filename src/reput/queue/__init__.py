"""The kinds of ConsumeQueue, on disk and in an open store, and the order rule of a queue.

Stages, commands and readers reach queues through the protocols in `kinds.py`. May import kernels, formats and files;
knows nothing of a whole store.
"""
