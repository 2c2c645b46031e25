"""Promises that are broken on purpose: each mutation changes one place of the source, and named tests must fail.

PYTHONPATH=tests python -m support.mutations                    every mutation, and the table in docs/reliability.md
PYTHONPATH=tests python -m support.mutations --only "stitch"    some, by a word of their titles

`promises.py` has the list, `run.py` runs the tests on a changed copy of src, `page.py` makes the table.
"""
