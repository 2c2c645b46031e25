"""`reput pending`: show what waits in a store.

It may import the modules of `cli`, and rooms below.
"""
