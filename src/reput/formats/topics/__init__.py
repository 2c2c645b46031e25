"""Names of topics and groups: those that a broker makes for itself, those that clients may use, and lite topics.

May import `java`.
"""
