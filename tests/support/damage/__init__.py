"""Stores of which one field is changed or one file is cut, and what reput says of each: never a silent wrong answer.

PYTHONPATH=tests python -m support.damage                           all stores, and the table docs/damage.md
PYTHONPATH=tests python -m support.damage --store ext --seed 7      one store, other places

`places.py` finds the fields by their layouts, `stores.py` has the stores, `answers.py` asks a store, `judge.py` damages
it and compares, `page.py` makes the table.
"""
