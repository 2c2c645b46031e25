"""The settings of the log's writer, from broker.conf."""

from __future__ import annotations

import ipaddress
from dataclasses import fields
from typing import Any

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.log.record import LOCALHOST, Host
from reput.log.append.settings import FlushDiskType, LogSettings

_MAX_PORT = (1 << 16) - 1


def log_settings(config: StoreConfig, file_size: int) -> LogSettings:
    """Return the log's settings: the configured values, else RocketMQ's defaults, with the present files' size.

    Raises:
        ConfigError: the log cannot work with a value.
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
    return LogSettings(**values, store_host=_store_host(config))


def _store_host(config: StoreConfig) -> Host:
    """Return the broker's address as records have it: brokerIP1 (IPv4 or IPv6) and listenPort."""
    address, port = LOCALHOST.address, config.listen_port or LOCALHOST.port
    if config.broker_ip1 is not None:
        try:
            address = ipaddress.ip_address(config.broker_ip1).packed
        except ValueError:
            raise ConfigError(f"brokerIP1={config.broker_ip1}: give an IPv4 or IPv6 address, not a name") from None
    if port > _MAX_PORT:
        raise ConfigError(f"listenPort={port}: give 1 to {_MAX_PORT}")
    return Host(address, port)
