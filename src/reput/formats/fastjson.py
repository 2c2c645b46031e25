"""JSON as the broker's fastjson writes it: whole numbers as keys may have no quotes, so JSON parsers refuse it."""

from __future__ import annotations

import json
import re
from typing import Any

JAVASCRIPT_MAX = (1 << 53) - 1
"""The highest number that `JSONWriter.Feature.BrowserCompatible` writes as a number; higher ones become texts."""

# A key looks like text inside a string, so the pattern matches both: strings first, bare keys second.
_BARE_KEY = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?\d+)(\s*:)')


def parse_fastjson(text: str) -> Any:
    """Parse JSON as the broker writes it, with unquoted whole-number keys; None if it is not that either."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    quoted = _BARE_KEY.sub(lambda match: match[1] or f'{match[2]}"{match[3]}"{match[4]}', text)
    try:
        return json.loads(quoted)
    except (ValueError, RecursionError):
        return None
