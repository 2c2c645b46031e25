"""Topics, groups and committed offsets, wherever the broker keeps them: `metadata.Metadata` says which source counts.

May import nothing else of `store`.
"""
