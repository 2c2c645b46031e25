"""Consumer progress and the filters that consumers register.

May import `disk` and `owner`.
"""
