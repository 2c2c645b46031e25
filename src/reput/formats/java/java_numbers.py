"""Whole numbers in texts, as Java's `Integer.parseInt` and `Long.parseLong` read them, and the order of doubles.

They take a sign and digits, as many as the text has, and nothing else: no blanks, no underscores. `int` takes more.
"""

from __future__ import annotations

import re
import struct

# Character.digit knows every decimal digit of Unicode's first plane.
_WHOLE = re.compile(r"[+-]?\d+")
_WHOLE_BYTES = re.compile(rb"[+-]?[0-9]+")
_FIRST_PLANE = "\uffff"
_MOST_DIGITS = 19
_BELOW_SIGN = (1 << 63) - 1


def parse_whole(text: str | bytes | None, bits: int) -> int | None:
    """Return the whole number in a text; None if there is none, or one that `bits` bits do not hold, or no text.

    In bytes only the digits of ASCII count.
    """
    if text is None:
        return None
    if isinstance(text, bytes):
        if not _WHOLE_BYTES.fullmatch(text):
            return None
        text = text.decode()
    elif not _WHOLE.fullmatch(text) or max(text) > _FIRST_PLANE:
        return None
    # Python reads no more than some thousand digits. Zeros of other scripts are digits like others here.
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS and not digits.isascii():
        digits = _digits_of_ascii(digits).lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None
    value = int(digits or "0") * (-1 if text.startswith("-") else 1)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def double_order(value: float) -> int:
    """Return a whole number whose order is that of `Double.compareTo`, -0.0 below 0.0; not for NaN."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ _BELOW_SIGN


def _digits_of_ascii(digits: str) -> str:
    return "".join(str(int(digit)) for digit in digits)
