"""Indexes are built from the parts that splits left: new ones in staging (rebuild), or the live ones in place (grow).

May import `split` and `spark`.
"""
