"""IndexFiles on disk: their headers, their items, and the search by key.

May import kernels, formats and files; knows nothing of a whole store.
"""
