"""The handle by which the sender of a timer message recalls it: five words with spaces between, in base64 for URLs.

The words are `v1`, the topic, the broker's name, the time at which the message is due (ms), and its unique key. A
decoder takes a handle without the padding of base64, and ignores further words.

Source: `org.apache.rocketmq.common.producer.RecallMessageHandle`.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

_VERSION = "v1"
_WORDS = 5
_BASE64 = re.compile(r"([A-Za-z0-9_-]+)(={0,2})")


class RecallHandle(NamedTuple):
    """The words of a handle after its version, as they are: a client may send any."""

    topic: str
    broker_name: str
    due_ms: str
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """Return the text of a handle."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle | None:
    """Return the handle of a text; None if the text is no handle."""
    found = _BASE64.fullmatch(text)
    if found is None:
        return None
    data, padding = found.groups()
    missing = -len(data) % 4
    if missing == 3 or len(padding) not in (0, missing):
        return None
    # As Java's `split` the decoder drops empty words at the end.
    words = base64.urlsafe_b64decode(data + "=" * missing).decode(errors="replace").rstrip(" ").split(" ")
    if len(words) < _WORDS or words[0] != _VERSION:
        return None
    return RecallHandle(*words[1:_WORDS])
