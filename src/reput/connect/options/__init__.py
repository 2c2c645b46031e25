"""Options, columns and filters of a reader of the data source.

Imports no other folder of `connect`.
"""
