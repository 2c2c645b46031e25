"""Tables that a broker keeps in files with backups."""

from __future__ import annotations

import logging
from typing import TypeVar

from reput.errors import DamagedStoreError
from reput.files.backed_up import BackedUpFile

_KeptTable = TypeVar("_KeptTable")
log = logging.getLogger("reput.broker")


def kept_table(file: BackedUpFile[_KeptTable]) -> _KeptTable | None:
    """Return what a file has; None if it is damaged, and its backup, too. The log names each problem."""
    try:
        found = file.load()
    except DamagedStoreError as error:
        log.error("%s", error)  # noqa: TRY400 - the text says it all
        return None
    for note in found.notes:
        log.error("%s", note)
    return found.content
