"""Work beside requests: pulls that are held, delayed and timer messages, transactions.

`broker` joins them with the state. May import `state` and `wire`.
"""
