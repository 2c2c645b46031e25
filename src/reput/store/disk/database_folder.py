"""The folder of the database of queues: where it is, and where the settings say that it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from reput.errors import UnsupportedStoreError
from reput.files import names as folder_names
from reput.formats.queue.queue_kinds import FOLDER_SETTING
from reput.nearest import FEW, some
from reput.store.disk.layout import StoreLayout

_TABLE_OR_LIST = re.compile(r"[0-9]{6,}\.sst|MANIFEST-[0-9]{6,}")


def refuse_misplaced_database(layout: StoreLayout) -> None:
    """Refuse a database of queues outside the folder that the settings name, and two of them.

    Raises:
        UnsupportedStoreError: there is one.

    Source: `RocksDBConsumeQueueStore`: "find RocksDBConsumeQueue in original/separate path".
    """
    if why := misplaced_database(layout):
        raise UnsupportedStoreError(why)


def partial_database(folders: Iterable[Path]) -> str:
    """Describe a database in one of these folders that lacks RocksDB's first file, as a copy in part; "" for none."""
    for folder in folders:
        if folder_names.is_database(folder):
            continue
        found = sorted(name for name in folder_names.file_names(folder) if _TABLE_OR_LIST.fullmatch(name))
        if found:
            return (
                f"{folder}: {some(found, FEW)} of a database, and no file CURRENT: the database was "
                "copied in part, and RocketMQ begins an empty one. Copy the folder again, with all its files, while "
                "no program has it open. If they are lost: `reput rebuild --only queue` builds it anew from the log"
            )
    return ""


def misplaced_database(layout: StoreLayout) -> str:
    """Describe a database of queues outside the folder that the settings name, which RocketMQ refuses; "" for none."""
    here, other = layout.queue_database, layout.other_queue_database
    if not folder_names.is_database(other):
        return ""
    if folder_names.is_database(here):
        return (
            f"{here} and {other}: both are databases of queues, and RocketMQ refuses a store with two. `reput rebuild "
            "--only queue --set useSeparateStorePathForRocksdbCQ=...` builds the one that broker.conf names and "
            "removes the other"
        )
    if layout.separate_database is None:
        return ""
    return (
        f"{FOLDER_SETTING}={str(layout.separate_database).lower()}, and the database of queues is in "
        f"{other}: RocketMQ refuses that. Correct the setting, or move the queues with `reput convert`"
    )
