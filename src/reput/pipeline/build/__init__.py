"""Indexes are built from the parts that splits left: new ones in staging (rebuild), or the live ones in place (grow).

`reorder`, then `stages`; on these `index`, `queues` and `rocksdb`; then `kinds.py`, `rebuild_report.py` and
`publish.py`; on all of them `grow` and `rebuild`. May import `split` and `spark`.
"""
