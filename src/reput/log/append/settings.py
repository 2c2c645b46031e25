"""The settings of a log's writer: RocketMQ's names in snake_case, with RocketMQ's defaults.

Sizes in bytes, times in ms unless the comment says otherwise, ratios in percent.

Source: `MessageStoreConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reput.errors import ConfigError
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.record import BLANK_SIZE, LOCALHOST, MIN_RECORD_SIZE, Host

PAGE_SIZE = 4096
"""Bytes of a page as RocketMQ counts them in its "least pages" settings."""
DEFAULT_FILE_RESERVED_HOURS = 72
DEFAULT_MAX_MESSAGE_SIZE = 4 << 20
"""The most bytes of a body."""
DEFAULT_SYNC_FLUSH_TIMEOUT_MS = 5000


class FlushDiskType(Enum):
    """The moment when a put returns: when it is written, or when it is durable."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of writing, flushing and cleaning a CommitLog.

    Raises:
        ConfigError: The log cannot work with a value.
    """

    mapped_file_size_commit_log: int = 1 << 30
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    auto_message_version_on_topic_len: bool = True
    enabled_append_prop_crc: bool = False
    enable_lmq: bool = False
    store_host: Host = LOCALHOST

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    sync_flush_timeout: int = DEFAULT_SYNC_FLUSH_TIMEOUT_MS

    transient_store_pool_enable: bool = False
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200

    delete_when: str = "04"  # hours of the local day, ";" between them
    file_reserved_time: int = DEFAULT_FILE_RESERVED_HOURS
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    delete_file_batch_max: int = 10
    clean_resource_interval: int = 10_000

    def __post_init__(self) -> None:
        if self.mapped_file_size_commit_log < MIN_RECORD_SIZE + BLANK_SIZE:
            raise ConfigError(
                f"mappedFileSizeCommitLog={self.mapped_file_size_commit_log}: not even the smallest record fits such a "
                f"file; give at least {MIN_RECORD_SIZE + BLANK_SIZE}"
            )
        # The record's length is a signed 32-bit number.
        largest = 0x7FFFFFFF - MAX_PROPERTIES_SIZE - (64 << 10)
        if not 0 < self.max_message_size <= largest:
            raise ConfigError(f"maxMessageSize={self.max_message_size}: give 1 to {largest} bytes")
        if len(self.store_host.address) not in {4, 16}:
            raise ConfigError(f"the store host's address has {len(self.store_host.address)} bytes: give 4 or 16")
        self.delete_hours()

    @property
    def sync_flush(self) -> bool:
        """True if a put waits until it is durable."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def write_buffered(self) -> bool:
        """True if puts go to memory first and to the file in steps; as in RocketMQ, never with sync flush."""
        return self.transient_store_pool_enable and not self.sync_flush

    def delete_hours(self) -> frozenset[int]:
        """Return the hours of the local day in which expired files are removed.

        Raises:
            ConfigError: deleteWhen is no list of hours.
        """
        hours = set()
        for text in filter(None, self.delete_when.split(";")):
            if not text.strip().isdecimal() or int(text) > 23:
                raise ConfigError(f'deleteWhen={self.delete_when}: give hours from 00 to 23, ";" between them')
            hours.add(int(text))
        return frozenset(hours)
