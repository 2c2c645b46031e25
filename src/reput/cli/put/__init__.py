"""The verb `put`: its options (`command`), its lines, and how it ends.

May import the modules of `cli`.
"""
