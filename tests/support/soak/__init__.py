"""A soak: programs work on one store for a long time, near its limits, and nothing is lost and nothing grows.

    python -m support.soak --minutes 30      (`make soak MINUTES=30`, `make soak HOURS=8`)

`programs.py` has what runs: a writer with many threads, a reader, one who asks, and a follower, each in its own
process. They count on a `board.py`. `weather.py` makes their disk slow, their clock jump and their memory go.
`samples.py` looks at their memory and handles, and `verdict.py` says what is wrong.
"""
