"""Which files of the log go when they have expired or the disk fills.

`decide` is a pure function of the files, the clock and the disk; `clean` asks the system, decides and removes. Whether
files may go at all, `reput.store.write.expiry` says. Readers that have a removed file mapped keep its bytes until
they let go of it.

A file expires `fileReservedTime` hours after its last change. Expired files go in the hours of `deleteWhen`, and at
any hour when the disk is fuller than `diskMaxUsedSpaceRatio`. If it is fuller than `diskSpaceCleanForciblyRatio` as
well, such a run takes files of any age (`cleanFileForciblyEnable`). Above `diskSpaceWarningLevelRatio` puts are
refused, until there is room again. The oldest go first, up to the first that stays; at most `deleteFileBatchMax` in one
run, and never the last one.

Source: `DefaultMessageStore.CleanCommitLogService`, `MappedFileQueue.deleteExpiredFileByTime`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reput.files import fs
from reput.formats import paths
from reput.log.settings import LogSettings

_HOUR_MS = 3_600_000


class AgedFile(NamedTuple):
    """A file of the log: its start offset, and when it was last changed (ms)."""

    start: int
    modified_ms: int


class Decision(NamedTuple):
    """Which files go (start offsets, oldest first) and why, for people; how full the disk is, and may be for puts."""

    remove: tuple[int, ...]
    disk_percent: int
    warning_percent: int
    reason: str = ""

    @property
    def disk_full(self) -> bool:
        """Whether puts are to be refused."""
        return self.disk_percent > self.warning_percent


def decide(
    files: Sequence[AgedFile], now_ms: int, hour: int, disk_percent: int, settings: LogSettings, *, manual: bool = False
) -> Decision:
    """Decide what one run removes; pure.

    Args:
        files: the log's files, oldest first.
        now_ms: the time, for the files' ages.
        hour: the hour of the local day.
        disk_percent: how full the log's disk is.
        settings: when files expire, and from when on a disk counts as full.
        manual: a call asks for this run: expired files go at any hour.
    """
    warning, forcibly, ratio = _ratios(settings)
    reason = ""
    if disk_percent > ratio:
        reason = f"the disk is {disk_percent} % full, over {ratio} % (diskMaxUsedSpaceRatio)"
    elif hour in settings.delete_hours():
        reason = f"it is {hour:02d} o'clock (deleteWhen)"
    elif manual:
        reason = "a call or an option asks for it"
    at_once = bool(reason) and disk_percent > forcibly and settings.clean_file_forcibly_enable
    if at_once:
        reason = f"the disk is {disk_percent} % full, over {forcibly} % (diskSpaceCleanForciblyRatio)"
    remove = []
    if reason:
        for file in files[:-1][: settings.delete_file_batch_max]:
            if not at_once and file.modified_ms + settings.file_reserved_time * _HOUR_MS > now_ms:
                break
            remove.append(file.start)
    return Decision(tuple(remove), disk_percent, warning, reason if remove else "")


def _ratios(settings: LogSettings) -> tuple[int, int, int]:
    """The three ratios in percent, within the bounds that RocketMQ puts on them."""
    return (
        _bounded(settings.disk_space_warning_level_ratio, 35, 90),
        _bounded(settings.disk_space_clean_forcibly_ratio, 30, 85),
        _bounded(settings.disk_max_used_space_ratio, 10, 95),
    )


def _bounded(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)


def clean(
    folder: Path,
    settings: LogSettings,
    *,
    deletes: bool,
    manual: bool = False,
    below: int | None = None,
    report: Callable[[Path, str], None] | None = None,
) -> Decision:
    """Remove the files of a log that have to go now; `remove` of the answer names those that went.

    Args:
        folder: the commitlog folder.
        settings: when files expire, and from when on a disk counts as full.
        deletes: False only looks at the disk: no file goes.
        manual: as for `decide`.
        below: files that reach past this log offset stay, whatever their age: no index covers them yet.
        report: called with each file that went, and why it did.

    Raises:
        AccessError: no right to remove them.
    """
    now = time.time()
    hour, percent = time.localtime(now).tm_hour, fs.disk_use(folder).percent
    files = aged_files(folder) if deletes else []
    if below is not None:
        # A file ends where the next one starts.
        files = [file for file, behind in pairwise(files) if behind.start <= below] + files[-1:]
    decision = decide(files, int(now * 1000), hour, percent, settings, manual=manual)
    if not decision.remove:
        return decision
    for start in decision.remove:
        path = folder / paths.offset_name(start)
        fs.remove_file(path)
        if report is not None:
            report(path, decision.reason)
    # Else a crash could bring back an older file behind one that stays away.
    fs.sync_path(folder)
    # The files that went may have made room enough for puts.
    return decision._replace(disk_percent=fs.disk_use(folder).percent)


def aged_files(folder: Path) -> list[AgedFile]:
    """The files of a log by start offset, with their ages; those that go meanwhile are left out."""
    files = []
    for entry in fs.list_dir(folder):
        start = None if entry.is_dir else paths.parse_offset_name(entry.name)
        modified = None if start is None else fs.modified_ms(folder / entry.name)
        if start is not None and modified is not None:
            files.append(AgedFile(start, modified))
    return files
