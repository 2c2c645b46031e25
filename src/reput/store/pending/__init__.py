"""Work that waits in a store: timer messages, transactions without an end, and messages that pop consumers hold.

A view for people: each row is compared with the log. It may import disk, progress and read.
"""
