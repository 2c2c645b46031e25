"""IndexFiles: the plan of their items, the task that writes one, and the stage that runs these tasks.

May import `stages`, `split` and `spark`.
"""
