"""The parts of a store's folder: paths, settings, kinds and placement of queues, sizes, frontier, checkpoint.

`store` opens a store for a purpose; `queue_refusals` has refusals, `contradictions` settings that the files contradict.
`retained` keeps the numbering of queues without records. May import `metadata`.
"""
