"""Consumer progress and the filters that consumers register.

May import `metadata`, `disk` and `owner`.
"""
