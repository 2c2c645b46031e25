"""Spark data source `format("rocketmq")`: reads a store's files as a table or a stream, and appends to a store.

`options` parses what a reader asks for; `cut` finds the ranges to read; `scan` reads them in tasks; `sink` writes.
The modules beside the folders plan a read (`plan`, `tasks`), face Spark (`source`, `stream`, `writer`), and read
without it (`local_scan`, `export`). May import `pipeline`, and what lies below it.
"""
