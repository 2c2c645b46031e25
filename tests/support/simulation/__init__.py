"""One seed decides the clock, the steps of a writer, a follower, readers, rebuilds and a broker, and the faults.

PYTHONPATH=tests python -m support.simulation --seeds 10000              many seeds, and how often rare states were seen
PYTHONPATH=tests python -m support.simulation --first 31 --seeds 1       one seed again: the same calls and bytes

All run reput's own code in one process, step by step, on the recorded disk of `support.power`. A life ends with a close
or with a power cut at any call of its last step; the next life begins with what the disk has kept.
`run.py` has the steps, `broker.py` a model of RocketMQ's broker, `sometimes.py` the rare states.
"""
