"""Messages on their way to bytes: objects, columns and batches are checked, numbered and encoded as records.

May import `formats`, `kernels` and `errors`. No file is opened here.
"""
