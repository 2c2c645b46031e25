"""The verb `dump`: its options (`command`), and a module for each thing that it prints.

May import `cli/shared`, and what that may import.
"""
