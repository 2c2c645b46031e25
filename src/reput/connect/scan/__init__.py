"""Tasks of a read: a range becomes Arrow record batches.

May import `options` and `cut`.
"""
