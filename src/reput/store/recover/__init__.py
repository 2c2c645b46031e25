"""Where the log begins and ends after a close or a crash.

May import `disk` and `owner`.
"""
