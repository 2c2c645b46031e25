"""Compiled decoders on very many inputs: a compiled loop changes inputs, decodes them, and holds the law.

`make fuzz-decoders` finds new ways, some thousand inputs a second. This tries a million inputs a second, without a
guide: it changes inputs that are known to go far.
"""
