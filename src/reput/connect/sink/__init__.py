"""Writes with Spark: tasks stage messages, and the driver appends them exactly once.

May import `options`.
"""
