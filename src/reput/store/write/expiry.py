"""Deletion of expired log files in an open store, and its reports.

By default nothing is deleted. The first of these that has a setting decides:

1. the call: `open(..., delete_expired=...)`, `reput put --delete-expired`
2. the configuration of the call: a broker.conf, or settings of deletion (`StoreConfig.asks_to_delete`)
3. the configuration with which reput made the store, kept in `reput/expiry.conf`

Without a broker.conf only expired files are deleted. RocketMQ also deletes files of any age from a nearly full disk;
reput does so only if a setting names it (cleanFileForciblyEnable, diskSpaceCleanForciblyRatio).
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from pathlib import Path
from threading import RLock

from reput.config import StoreConfig, deletion_properties, parse_properties
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.log.append.append import LogAppender
from reput.log.append.clean import clean
from reput.store.disk.layout import StoreLayout
from reput.store.read.view import StoreView
from reput.store.write.expired import delete_expired_indexes

_log = logging.getLogger("reput.store")
_MOST_BYTES = 4096
_MOST_NOTES = 100


def keep_settings(layout: StoreLayout, config: StoreConfig, owner: fs.Owner) -> None:
    """Keep the settings of deletion of a new store, if they turn deletion on."""
    if config.asks_to_delete:
        lines = [f"{name}={value}\n" for name, value in sorted(deletion_properties(config).items())]
        fs.write_whole(layout.own(own.EXPIRY_NAME), "".join(lines).encode(), owner)


def with_own_settings(layout: StoreLayout, config: StoreConfig) -> StoreConfig:
    """Return the configuration with complete settings of deletion.

    The store's own settings complete those of the call. `delete_expired` and `clean_file_forcibly_enable` hold the
    result.

    Raises:
        ConfigError: a setting in the store's own file has a wrong type.
        DamagedStoreError: that file is too large to be one.
    """
    if config.delete_expired is None and not config.asks_to_delete:
        config = _kept_settings(layout).with_given(config)
    return replace(
        config, delete_expired=config.asks_to_delete, clean_file_forcibly_enable=config.asks_to_delete_forcibly
    )


def _kept_settings(layout: StoreLayout) -> StoreConfig:
    path = layout.own(own.EXPIRY_NAME)
    data = fs.read_bytes(path, _MOST_BYTES + 1) or b""
    if len(data) > _MOST_BYTES:
        raise DamagedStoreError(
            f"{path}: over {_MOST_BYTES} bytes, so reput did not write it. Remove it: without it nothing is deleted"
        )
    given = StoreConfig.from_properties(parse_properties(data.decode("utf-8", "replace")), str(path))
    # The file is there only for these settings, whatever else it says.
    return StoreConfig.from_properties(deletion_properties(given), str(path))


class Expiry:
    """Deletes expired log files of a store that is open to write, reports them, and refuses puts to a full disk.

    Args:
        layout: where the store's parts are.
        config: as `with_own_settings` returns it.
        view: the readers, which must know the deleted files.
        appender: the log's writer, which refuses puts.
        reputting: held while queue and index files are removed.
        notes: the store's notes. Each deletion adds one, and old ones make room.
    """

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        view: StoreView,
        appender: LogAppender,
        reputting: RLock,
        notes: list[str],
    ) -> None:
        self._layout, self._view, self._appender, self._reputting = layout, view, appender, reputting
        self._notes, self._of_deletion = notes, deque[str]()
        self._deletes, appender.when_disk_full = config.asks_to_delete, self._outlook

    def run(self, below: int, *, asked: bool = True, manual: bool = False) -> list[str]:
        """Delete the log files that are due now; return their names.

        Args:
            below: files that reach above this log offset stay, since no index covers them yet.
            asked: False only reads how full the disk is.
            manual: expired files are deleted at any hour.
        """
        folder, settings = self._layout.commit_log, self._appender.settings
        if asked:
            # A crash must not bring back a frontier below the log's first byte.
            fs.sync_path(self._layout.reput)
        decision = clean(folder, settings, deletes=asked, manual=manual, below=below, report=self._report_file)
        reason = ""
        if decision.disk_full:
            reason = (
                f"{folder}: the disk is {decision.disk_percent} % full, over {decision.warning_percent} % "
                f"(diskSpaceWarningLevelRatio); puts are refused until it is not. Make room on it. {self._outlook()}"
            )
        self._appender.block_puts(reason)
        if decision.remove:
            self._view.log.refresh()
            with self._reputting:
                gone = delete_expired_indexes(self._layout, self._view.kinds, self._view.log.min_offset)
                self._view.load()
            if gone:
                more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
                self._report(f"deleted indexes of deleted log files: {gone[0]}{more}")
        return [paths.offset_name(start) for start in decision.remove]

    def _report_file(self, path: Path, reason: str) -> None:
        self._report(f"deleted {path}: {reason}")

    def _report(self, text: str) -> None:
        _log.warning("%s", text)
        self._notes.append(text)
        self._of_deletion.append(text)
        if len(self._of_deletion) > _MOST_NOTES:
            self._notes.remove(self._of_deletion.popleft())

    def _outlook(self) -> str:
        """Say whether deletion of log files would make room on a full disk."""
        if sum(1 for _ in fs.list_dir(self._layout.commit_log)) <= 1:
            return "The log has one file, which is never deleted"
        age = f"{self._appender.settings.file_reserved_time} hours (fileReservedTime)"
        if not self._deletes:
            return (
                "Nothing was deleted, since deletion of expired log files is off. Turn it on (`reput put "
                "--delete-expired`, MessageStore.open(..., delete_expired=True)), and log files older than "
                f"{age} go"
            )
        return (
            "Deletion of expired log files is on: the last file stays, and so do files that are younger than "
            f"{age} or not indexed yet. A shorter fileReservedTime deletes more"
        )
