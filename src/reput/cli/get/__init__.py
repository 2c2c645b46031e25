"""The verb `get`: its options (`command`), and how it reads and prints.

May import `cli/shared`, and what that may import.
"""
