"""The removal of log files that have expired, or when the disk fills.

`decide_removal` is a pure function of the files, the clock and the disk; `clean` asks the system, decides and removes.
`reput.store.write.expiry` says whether files may be removed at all. Readers that have mapped a removed file keep its
bytes until they drop the map.

A file expires `fileReservedTime` hours after its last change. Expired files are removed in the hours of `deleteWhen`,
and at any hour if the disk is fuller than `diskMaxUsedSpaceRatio`. If it is also fuller than
`diskSpaceCleanForciblyRatio`, the run removes files of any age (`cleanFileForciblyEnable`). Above
`diskSpaceWarningLevelRatio` puts are refused until there is room again. The oldest files are removed first, up to the
first one that stays; at most `deleteFileBatchMax` in one run, and never the last file.

Source: `DefaultMessageStore.CleanCommitLogService`, `MappedFileQueue.deleteExpiredFileByTime`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reput.files import disk_space, fs
from reput.formats import paths
from reput.log.append.settings import LogSettings
from reput.times import HOUR_MS


class AgedFile(NamedTuple):
    """A file of the log: its start offset, and the time of its last change (ms)."""

    start: int
    modified_ms: int


class Decision(NamedTuple):
    """The files to remove (start offsets, oldest first), the reason, the disk's fill level, and the limit for puts."""

    remove: tuple[int, ...]
    disk_percent: int
    warning_percent: int
    reason: str = ""

    @property
    def disk_full(self) -> bool:
        """True if puts are to be refused."""
        return self.disk_percent > self.warning_percent


def decide_removal(
    files: Sequence[AgedFile], now_ms: int, hour: int, disk_percent: int, settings: LogSettings, *, manual: bool = False
) -> Decision:
    """Decide which files one run removes; pure.

    Args:
        files: The log's files, oldest first.
        now_ms: The time, for the files' ages.
        hour: The hour of the local day.
        disk_percent: The fill level of the log's disk.
        settings: Expiry times, and the ratios above which a disk is full.
        manual: A call asks for this run: expired files are removed at any hour.
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
            if not at_once and file.modified_ms + settings.file_reserved_time * HOUR_MS > now_ms:
                break
            remove.append(file.start)
    return Decision(tuple(remove), disk_percent, warning, reason if remove else "")


def _ratios(settings: LogSettings) -> tuple[int, int, int]:
    """Return the three ratios in percent, within RocketMQ's bounds."""
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
    """Remove the files of a log that are due; `remove` of the answer names the removed files.

    Args:
        folder: The commitlog folder.
        settings: Expiry times, and the ratios above which a disk is full.
        deletes: False only looks at the disk and removes nothing.
        manual: As for `decide_removal`.
        below: Files that reach past this log offset stay at any age: no index covers them yet.
        report: Called with each removed file and the reason.

    Raises:
        AccessError: The process has no right to remove them.
    """
    now = time.time()
    hour, percent = time.localtime(now).tm_hour, disk_space.disk_use(folder).percent
    files = aged_files(folder) if deletes else []
    if below is not None:
        # A file ends where the next one starts.
        files = [file for file, following in pairwise(files) if following.start <= below] + files[-1:]
    decision = decide_removal(files, int(now * 1000), hour, percent, settings, manual=manual)
    if not decision.remove:
        return decision
    for start in decision.remove:
        path = folder / paths.offset_name(start)
        # One by one, and after those of an earlier call, whose sync may have failed: otherwise a crash could bring back
        # a file, but not the file after it.
        fs.sync_path(folder)
        fs.remove_file(path)
        if report is not None:
            report(path, decision.reason)
    fs.sync_path(folder)
    # The removed files may have made room for puts.
    return decision._replace(disk_percent=disk_space.disk_use(folder).percent)


def aged_files(folder: Path) -> list[AgedFile]:
    """Return the files of a log by start offset, with their ages, without files that are removed meanwhile."""
    files = []
    for entry in fs.list_dir(folder):
        start = paths.parse_offset_name(entry.name) if entry.is_file else None
        modified = None if start is None else fs.modified_ms(folder / entry.name)
        if start is not None and modified is not None:
            files.append(AgedFile(start, modified))
    return files
