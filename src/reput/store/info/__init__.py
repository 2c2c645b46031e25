"""Description of a store from names, ends and headers (`reput info`).

May import `metadata`, `disk`, `owner` and `recover`.
"""
