"""Indexes are built from what splits left: anew beside the old ones (rebuild), or where they are (grow).

May import `split` and `spark`.
"""
