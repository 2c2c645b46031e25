"""The verb `dump`: its options (`command`), and a module for each thing that it prints.

May import the modules of `cli`.
"""
