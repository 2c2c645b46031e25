"""Names as a store has them, in UTF-8, and as Python has them: bytes that are no UTF-8 survive both ways.

Python's command line and file names do the same (`os.fsencode`).
"""

from __future__ import annotations


def stored_bytes(text: str) -> bytes:
    """Return the bytes of a name.

    Raises:
        UnicodeEncodeError: half of a character is in it, which no store has.
    """
    return text.encode("utf-8", "surrogateescape")


def stored_text(data: bytes) -> str:
    """Return the text of a name, of which `stored_bytes` makes the same bytes."""
    return data.decode("utf-8", "surrogateescape")
