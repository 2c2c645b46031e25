"""The first stage of a job: the log is cut into splits, tasks decode them, and a proof shows that they join.

May import `spark` only.
"""
