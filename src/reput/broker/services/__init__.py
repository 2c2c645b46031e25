"""Work beside requests: pulls and pops that wait, leases, delayed and timer messages, transactions.

`broker` joins them with the state. May import `state` and `wire`.
"""
