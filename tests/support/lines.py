"""Lines of a program that runs long: each is seen at once."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
