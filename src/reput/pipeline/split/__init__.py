"""The log cut into splits, each decoded by a task: what the tasks leave, and the proof that the splits join.

May import `spark` only.
"""
