"""What broker.conf says about the log's writer, as the log takes it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.log.settings import FlushDiskType, LogSettings


def log_settings(config: StoreConfig, file_size: int) -> LogSettings:
    """The log's settings: what the configuration gives, else RocketMQ's defaults; the file size is the present files'.

    Raises:
        ConfigError: a value that the log could not work with.
    """
    values: dict[str, Any] = {
        field.name: value for field in fields(LogSettings) if (value := getattr(config, field.name, None)) is not None
    }
    if "flush_disk_type" in values:
        try:
            values["flush_disk_type"] = FlushDiskType(values["flush_disk_type"])
        except ValueError:
            known = ", ".join(kind.value for kind in FlushDiskType)
            raise ConfigError(f"flushDiskType={values['flush_disk_type']}: choose one of {known}") from None
    values["mapped_file_size_commit_log"] = file_size
    return LogSettings(**values)
