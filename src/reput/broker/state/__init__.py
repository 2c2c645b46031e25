"""The state that requests share: topics, groups, clients that are online, locks, counts, and the store itself.

`state` has it all. May import `wire`.
"""
