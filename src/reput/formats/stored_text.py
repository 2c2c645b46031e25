"""Names as a store has them, in UTF-8, as Python has them, and as people see them.

Bytes that are no UTF-8 survive the way to Python and back, as in file names and on the command line (`os.fsencode`).
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


def shown_text(data: bytes) -> str:
    """Return bytes of a record as rows and people see them: what is no UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")
