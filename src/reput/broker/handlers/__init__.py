"""The requests of clients and administrators: a function for each, and `table` with their codes.

May import all folders below: `services`, `state`, `wire`.
"""
