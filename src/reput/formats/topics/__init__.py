"""Topics and groups: names that a broker makes for itself and that clients may use, lite topics, permissions.

May import `java`.
"""
