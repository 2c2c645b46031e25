"""Folders that a power cut does not remove: their names are durable."""

from __future__ import annotations

import contextlib
from pathlib import Path

from reput.errors import AccessError
from reput.files import fs


def make_durable_dir(path: Path | str, owner: fs.Owner | None = None) -> None:
    """Create a folder like `fs.make_dirs`; the names of the folder and of new ones above it are durable on return.

    A folder that exists gets a durable name, too: the process that created it may have been killed before. A
    process that may not read the folder above an existing folder leaves that to the folder's owner.

    Raises:
        AccessError: The process must not create the folder.
    """
    path = Path(path)
    if not fs.is_dir(path.parent):
        make_durable_dir(path.parent, owner)
    is_new = not fs.is_dir(path)
    fs.make_dirs(path, owner)
    with contextlib.ExitStack() as allowed:
        if not is_new:
            allowed.enter_context(contextlib.suppress(AccessError))
        fs.sync_path(path.parent)
