"""What a reader of the data source asks for: options, columns, filters.

Imports no other folder of `connect`.
"""
