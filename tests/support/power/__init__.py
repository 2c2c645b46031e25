"""A disk that keeps what a disk keeps, and a sweep that cuts the power at every call. `recorder.py` begins it.

PYTHONPATH=tests python -m support.power --states 100000 --seed 7            every scenario
PYTHONPATH=tests python -m support.power --scenario put --call 31 --choice 5 the state of a failure, again
"""
