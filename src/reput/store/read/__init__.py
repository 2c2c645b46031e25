"""Answers of an open store: pulls, look-ups by key, counts and times.

May import `metadata`, `disk`, `owner`, `recover` and `progress`.
"""
