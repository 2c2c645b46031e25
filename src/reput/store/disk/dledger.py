"""Stores whose messages are in a DLedger log: every reader and job refuses them by name.

A broker with enableDLegerCommitLog=true puts messages into `dledger-ID/data` in the store. If it had a log before, it
reads both as one, and the newest messages are in DLedger alone. With the setting on, it may keep that folder elsewhere.

Source: `DLedgerCommitLog`, `DLedgerConfig.getDataStorePath`, `DefaultMessageStore.getStorePathPhysic`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import UnsupportedStoreError
from reput.files import fs, names

_PREFIX = "dledger-"
_DATA = "data"


def refuse_dledger(root: Path, commit_log: Path, config: StoreConfig) -> None:
    """Refuse a store that has messages in a DLedger log, or whose settings turn one on.

    With enableDLegerCommitLog=false a broker leaves such a folder alone, and so does reput.

    Raises:
        UnsupportedStoreError: it has.
    """
    if config.enable_dledger_commit_log is False:
        return
    if config.enable_dledger_commit_log:
        what = config.given("enable_dledger_commit_log")
        raise UnsupportedStoreError(f"{root}: {what}, so its messages are in a DLedger log, which reput does not read")
    for folder in _dledger_folders(root):
        data = folder / _DATA
        if fs.is_dir(data) and not names.is_empty_dir(data):
            raise UnsupportedStoreError(
                f"{data}: has files of a DLedger log, which reput does not read, and the newest messages may be there. "
                "If the broker no longer uses DLedger, add --set enableDLegerCommitLog=false"
            )
        if names.is_empty_dir(commit_log):
            # A broker with DLedger makes the other folder, too, and leaves it empty.
            raise UnsupportedStoreError(f"{folder}: a DLedger log, which reput does not read")


def _dledger_folders(root: Path) -> Iterator[Path]:
    return (root / entry.name for entry in fs.list_dir(root) if not entry.is_file and entry.name.startswith(_PREFIX))
