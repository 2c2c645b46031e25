"""The verb `put`: its options (`command`), its lines, and how it ends.

May import `cli/shared`, and what that may import.
"""
