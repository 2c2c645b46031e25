"""Description of a store from names, ends and headers (`reput info`).

May import `disk`, `owner` and `recover`.
"""
