"""The words and signs of a filter, counted before it is parsed: the parser takes some 12 us for each."""

from __future__ import annotations

import re
from itertools import islice

from reput.errors import ConfigError

_WORD = re.compile(r"'[^']*'|[\w$.]+|[^\s\w]")


def refuse_many_words(text: str, most: int) -> None:
    """Refuse a filter with more words, texts, numbers and signs; `a = 'x' OR` has four.

    Raises:
        ConfigError: there are more.
    """
    if next(islice(_WORD.finditer(text), most, None), None) is not None:
        raise ConfigError(f"SQL92 filter: more than {most:,} words and signs. Hint: a IN ('x', 'y') takes few")
