"""Addresses as routes and clients have them: `host:port`. Source: `NetworkUtil.string2SocketAddress`."""

from __future__ import annotations

from reput.errors import ConfigError


def host_and_port(address: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Raises:
        ConfigError: the text is no address.
    """
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ConfigError(f"address {address!r:.80}: give host:port, such as 127.0.0.1:9876")
    return host.strip("[]"), int(port)
