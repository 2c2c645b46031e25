"""Links in the place of folders and files of a store: reput writes below none that could lead out of the store."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from reput.errors import AccessError
from reput.files import owners
from reput.files.fs import errors_named


def refuse_links(*folders: Path | str) -> None:
    """Refuse to write below a link in the place of one of these folders: it could lead out of the store.

    Raises:
        AccessError: One of them is a link.
    """
    for folder in folders:
        with errors_named(folder, "look at"):
            if os.path.islink(folder):
                raise AccessError(
                    f"{folder}: a link to {os.readlink(folder)}. reput writes through no link here, and makes "
                    "none. Remove the link, or put the folder itself in its place"
                )


def refuse_others_links(*folders: Path | str) -> None:
    """Refuse, as root, to write below a link that another user has made: it leads where that user wants.

    Raises:
        AccessError: One of the folders is such a link.
    """
    for folder in folders if os.geteuid() == 0 else ():
        with errors_named(folder, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(folder)
            if stat.S_ISLNK(status.st_mode) and status.st_uid != 0:
                raise AccessError(
                    f"{folder}: a link to {os.readlink(folder)} that {owners.user_text(status.st_uid)} has made. root "
                    "writes through no link of others. Run as that user, or let root make the link"
                )
