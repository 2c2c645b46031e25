"""The journal of a program's changes to its files, in order, and what the program knew meanwhile.

A file or folder is known by a number, so that a rename changes a name and not the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

ROOT = 0
"""The number of the disk's top folder, which is always there."""


class Link(NamedTuple):
    """A name for a file, a folder or a link in a folder; a name that exists is replaced.

    `makes` says what the number is if it is new: `file`, `folder`, or for a link its target.
    """

    folder: int
    name: str
    number: int
    makes: str = ""


class Unlink(NamedTuple):
    """A name is removed from a folder."""

    folder: int
    name: str


class Rename(NamedTuple):
    """A name moves, at once, from one folder to another or within one."""

    folder: int
    name: str
    to_folder: int
    to_name: str
    number: int


class Write(NamedTuple):
    """Bytes are written into a file, by a call or through a map."""

    number: int
    offset: int
    data: bytes


class Resize(NamedTuple):
    """A file gets another length."""

    number: int
    size: int


class Sync(NamedTuple):
    """A sync of a file or folder returns. `failed`: it has failed, and the next one will not say so."""

    number: int
    failed: bool = False


class SyncAll(NamedTuple):
    """A sync of the whole file system returns."""


class Known(NamedTuple):
    """A fact that the program knows from now on: an answer of the store, or its own next request."""

    what: str
    value: int


Entry = Link | Unlink | Rename | Write | Resize | Sync | SyncAll | Known
