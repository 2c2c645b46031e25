"""The address and port that clients reach, and the loop that serves them."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import resource
import socket
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from reput.errors import ConfigError
from reput.files.descriptors import raise_limit

LOCALHOST = "127.0.0.1"
SPARE_HANDLES: Final = 256
"""The files that the process may always open beside its connections."""
_FOR_STORE = 4096
_BACKLOG = 1024
_AT_ONCE = 16


def listen(host: str, port: int, name: str = "port", *, allow_remote: bool, has_keys: bool = False) -> socket.socket:
    """Return a socket that listens. `name`: that of the port for people. `has_keys`: clients sign their requests.

    Raises:
        ConfigError: the address is not IPv4 or not allowed, or the port is taken.
    """
    if not isinstance(host, str):
        raise ConfigError(f"host={host!r:.80}: give an IPv4 address, such as {LOCALHOST}")
    if type(port) is not int:
        raise ConfigError(f"{name} {port!r:.80}: give a whole number, 0 to 65535; 0 takes a free one")
    try:
        address = ipaddress.ip_address(LOCALHOST if host == "localhost" else host)
    except ValueError:
        raise ConfigError(f"host {host!r:.80}: give an IPv4 address, such as {LOCALHOST}") from None
    if address.version != 4:
        raise ConfigError(f"host {host}: give an IPv4 address; message ids of IPv6 addresses are not served")
    if not address.is_loopback and not allow_remote:
        who = "all who have an access key" if has_keys else "anyone"
        raise ConfigError(
            f"host {host}: other machines may reach that address, and {who} there could read and write the store. "
            f"Allow it with --allow-remote (allow_remote=True), or listen on {LOCALHOST}"
        )
    if not 0 <= port <= 65535:
        raise ConfigError(f"{name} {port}: give 0 to 65535")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Its connections inherit this. Without it an answer waits until the client's system has acknowledged the one
        # before, which may take 40 ms. asyncio sets it only for sockets that name their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((str(address), port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"{name}: cannot listen on {host}:{port}: {error.strerror}{_remedy(error)}") from error
    return listener


def _remedy(error: OSError) -> str:
    return {
        errno.EADDRINUSE: ". Another program listens there: stop it, or give another port; 0 takes a free one",
        errno.EADDRNOTAVAIL: f". Give an address of this machine, such as {LOCALHOST}",
        errno.EACCES: ". Give a port from 1024 on",
    }.get(error.errno or 0, "")


def raise_handle_limit(connections: int) -> None:
    """Let this process open files for a number of connections, and for the store, if the system allows it."""
    raise_limit(connections + _FOR_STORE)


def leaves_handles(handle: int) -> bool:
    """Return True if the process may open more files beside the one with this number; the store needs them.

    The system gives each file the lowest number that is free, so a number says how many are open.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or handle < soft - min(SPARE_HANDLES, soft // 4)


async def start_server(
    loop: asyncio.AbstractEventLoop, connection: Callable[[], asyncio.BaseProtocol], listener: socket.socket
) -> asyncio.Server:
    """Begin to take connections from a socket that listens."""
    # asyncio takes that number of connections before any of them may be refused: less than the spare handles.
    server = await loop.create_server(connection, sock=listener, backlog=_AT_ONCE)
    # More may wait to be taken.
    listener.listen(_BACKLOG)
    return server


async def stop_server(server: asyncio.Server) -> None:
    """Take no more connections; those that were taken begin before this returns.

    Once asyncio's server is closed, a connection that it has taken cannot begin, and stays open until it is collected.
    """
    loop = server.get_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener)
    await asyncio.sleep(0)
    server.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop where it is installed, else asyncio's."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop
