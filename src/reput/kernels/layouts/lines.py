"""Lines of records: the program that a line kernel runs for each record, and the columns that it reads.

The columns are an int64 table with a row a number of a record: those of `FieldRow`, then those of `More`. Texts that
many records share, such as the parts of times, are kept once, one after the other, and columns and programs name them
by number.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.kernels.layouts.fields import FieldRow

MOST_PAIRS = 64
"""Slower code writes a record with more properties: the search for repeated names takes the square of the number."""
PIECE_BYTES = 64
"""No piece writes more than this, beside its text and eight times the bytes of its stretch."""
WHOLE = -1
"""The second argument of a body that is not cut."""


class LinePiece(IntEnum):
    """The text that a piece of a line writes. `row` is the first argument.

    A stretch is bytes of the record: its place in the buffer is in `row`, its size SIZE_BELOW rows below, -1 for none.
    The stretches of cells and of JSON must be UTF-8.
    """

    TEXT = 0
    """The text of the number in the second argument."""
    TEXT_OF = 1
    """The text whose number is in `row`."""
    NUMBER = 2
    """The number in `row`."""
    MILLISECONDS = 3
    """The number in `row` with three digits; nothing for a negative one."""
    LENGTH = 4
    """The size of the stretch, 0 for none."""
    BYTES = 5
    """The stretch as it is."""
    HEX = 6
    """The stretch in upper-case hex."""
    HEX_NUMBER = 7
    """The number in `row` as 16 upper-case hex digits."""
    PAIRS = 8
    """The stretch's properties as NAME=VALUE, with commas between."""
    CELL = 9
    r"""The stretch with newlines as `\n` and tabs as `\t`; `-` for none."""
    KEYS_CELL = 10
    """The unique key and the keys as one cell, with a space between; `-` for none."""
    STRING = 11
    """The stretch as a JSON string; null for none."""
    WORDS = 12
    """The words of the stretch, at spaces, as a JSON array of strings."""
    MAP = 13
    """The stretch's properties as a JSON object."""
    BODY = 14
    """The body as members of a JSON object; the second argument cuts it."""
    BODY_CELL = 15
    """The body as a cell that begins with `text:` or `base64:`; the second argument cuts it."""
    BODY_LINE = 16
    r"""The body with newlines as `\n`, or as base64 after `base64:`."""


SHARED_PIECES = (LinePiece.TEXT, LinePiece.TEXT_OF, LinePiece.NUMBER, LinePiece.MILLISECONDS, LinePiece.HEX_NUMBER)
"""Pieces without a stretch."""


class More(IntEnum):
    """Rows of the columns below those of `FieldRow`."""

    POSITION = len(FieldRow)
    """Log offset."""
    SIZE = auto()
    VERSION = auto()
    SECOND = auto()
    """The number of the text of the store time up to its second."""
    MILLISECOND = auto()
    """The milliseconds of the store time; -1 if it is no date, and its text is a number."""
    ZONE = auto()
    """The number of the text of the store time's zone."""
    BORN_HOST = auto()
    STORE_HOST = auto()
    """The numbers of the hosts' texts."""
    TRANSACTION = auto()
    COMPRESSION = auto()
    """The numbers of the texts of what sysFlag says."""


ROWS = len(FieldRow) + len(More)


class LineProgram(NamedTuple):
    """The program of a line, and its texts: text n is `texts[text_at[n] : text_at[n + 1]]` (uint8; int64).

    `steps` (int64) has a row a piece: the `LinePiece` and its two arguments.
    """

    steps: NDArray[np.int64]
    texts: NDArray[np.uint8]
    text_at: NDArray[np.int64]


class Stopped(IntEnum):
    """The reason why a line kernel returned: all is written, `out` is full, or slower code must write a record."""

    DONE = 0
    FULL = 1
    LEFT = 2


def line_table(records: int) -> NDArray[np.int64]:
    """Make columns with space for a number of records."""
    return np.empty((ROWS, records), dtype=np.int64)
