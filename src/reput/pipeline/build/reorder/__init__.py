"""Queues whose offsets are out of order in the log are built again in log order, by the rule of `queue/order.py`.

May import `split` and `spark`.
"""
