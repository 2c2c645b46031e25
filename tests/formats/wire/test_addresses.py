"""Addresses: host and port."""

from __future__ import annotations

import pytest

from reput.errors import ConfigError
from reput.formats.wire.addresses import host_and_port


@pytest.mark.parametrize(
    ("address", "wanted"),
    [("h:1", ("h", 1)), (" 10.0.0.1:9876 ", ("10.0.0.1", 9876)), ("[::1]:65535", ("::1", 65535))],
)
def test_an_address_is_host_and_port(address: str, wanted: tuple[str, int]) -> None:
    """The last colon parts them; an IPv6 address is in brackets."""
    assert host_and_port(address) == wanted


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:x", "host:0", "host:65536", "http://host:80"])
def test_what_is_no_address(address: str) -> None:
    """Everything else is refused with an example."""
    with pytest.raises(ConfigError, match="give host:port"):
        host_and_port(address)
