"""Fuzzing of decoders, guided by coverage: bytes that reach new branches are kept, and changed further.

PYTHONPATH=tests python -m support.fuzz --seconds 60             every target, and the table in docs/reliability.md
PYTHONPATH=tests python -m support.fuzz --only frame --seconds 600

`targets.py` has the decoders and their laws, `worker.py` runs one of them under atheris in a process of its own,
`corpus.py` keeps the inputs, `page.py` makes the table.
"""
