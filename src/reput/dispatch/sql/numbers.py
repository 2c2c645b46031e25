"""Numbers in texts, as Java reads them, and Java's order of doubles.

Source: `Integer.valueOf`, `Long.valueOf`, `Double.valueOf`, `Double.compareTo`.
"""

from __future__ import annotations

import math
import re

from reput.formats.java.java_numbers import double_order

_DECIMAL = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_NAMED = re.compile(r"[+-]?(?:NaN|Infinity)")
# Java's String.trim: every character up to the space.
_TRIMMED = "".join(map(chr, range(0x21)))
_NAN_KEY = 0x7FF8000000000000


def parse_double(text: str) -> float | None:
    """Return the double in a text; None for other text."""
    text = text.strip(_TRIMMED)
    if _NAMED.fullmatch(text):
        return float(text)
    if text[-1:] in ("f", "F", "d", "D") and not _HEX.fullmatch(text):
        text = text[:-1]
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf")
    return None


def double_key(value: float) -> int:
    """Return a number with the order of Double.compareTo: -0.0 below 0.0, NaN above all and equal to itself."""
    if math.isnan(value):
        return _NAN_KEY
    return double_order(value)
