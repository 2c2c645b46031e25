"""Texts and hashes as Java makes them: whole numbers, JSON of fastjson, and `String.hashCode`.

May import `errors` and nothing of `formats`.
"""
