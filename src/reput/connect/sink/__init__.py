"""Writing with Spark: tasks stage messages, the driver appends them exactly once.

May import `options`.
"""
