"""The verb `progress`: reports (`command`) and changes.

May import the modules of `cli`.
"""
