"""Sizes and times as texts for people."""

from __future__ import annotations

import functools

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SECONDS_KEPT = 1024


def size_text(size: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def time_text(timestamp_ms: int) -> str:
    """Return a time in milliseconds as local date and time; the number itself if it is no date."""
    second, ms = divmod(timestamp_ms, 1000)
    try:
        begin, zone = second_texts(second)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{begin}.{ms:03d}{zone}"


@functools.lru_cache(_SECONDS_KEPT)
def second_texts(second: int) -> tuple[str, str]:
    """Return a second as local date and time, and its zone. Consecutive messages share them."""
    from datetime import datetime

    text = datetime.fromtimestamp(second).astimezone().isoformat(" ", "milliseconds")
    begin, _, rest = text.partition(".")
    return begin, rest[3:]
