"""Pending work of a store: timer messages, half messages, and messages that pop consumers hold.

May import `layout`, `java` and `config`.
"""
