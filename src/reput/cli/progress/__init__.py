"""The verb `progress`: reports (`command`) and changes.

May import `cli/shared`, and what that may import.
"""
