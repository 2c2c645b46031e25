"""The verb `get`: its options (`command`), and how it reads and prints.

May import the modules of `cli`.
"""
