"""The bits of a topic's `perm`: clients may read it, write it, and make topics with its settings.

Source: `PermName`.
"""

from __future__ import annotations

from typing import Final

READ: Final = 4
WRITE: Final = 2
INHERIT: Final = 1
"""A topic that a client makes with a send gets this one's settings."""
