"""Thousands of connections at once: all that the limit allows are served, and nothing is kept of those that end."""

from __future__ import annotations

import contextlib
import gc
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, bodies, pull_fields
from reput.broker import server
from reput.broker.wire.connection import Connection
from reput.files.descriptors import raise_limit
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST, BEYOND = 1900, 100
HANDLES = 2 * (MOST + BEYOND) + 1000
"""Open files of this process, which has both ends of each connection."""
BYTES_EACH = 32 << 10
FURTHER_FILES = 50
"""Files that the store opens meanwhile."""


@pytest.fixture
def handles() -> Iterator[None]:
    """Let this process open HANDLES files, or skip."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_limit(HANDLES)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < HANDLES:
        pytest.skip(f"{MOST + BEYOND} connections need {HANDLES} open files, and `ulimit -Hn` allows {soft}")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def resident_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def open_files() -> int:
    """The number of files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def connections_left() -> int:
    """The connections of brokers that are still in memory."""
    gc.collect()
    return sum(type(one) is Connection for one in gc.get_objects())


@pytest.mark.usefixtures("handles")
def test_thousands_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections up to the limit are served, half of them held, in bounded memory; nothing is left of any."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", MOST)
    left = connections_left()
    with reput.serve(tmp_path / "store", topics=["orders"]) as broker:
        # The kernels take memory, too.
        wait_until(lambda: broker._broker.has_kernels, most_s=300)
        with Client(broker.address) as first:
            # The store's files are open then.
            first.put("orders", b"first")
            assert bodies(first.pull("orders")) == [b"first"]
        wait_until(lambda: broker._server.open_connections == 0)
        files, memory = open_files(), resident_bytes()
        with contextlib.ExitStack() as opened:
            clients = [opened.enter_context(Client(broker.address)) for _ in range(MOST)]
            wait_until(lambda: broker._server.open_connections == MOST)
            further = [opened.enter_context(Client(broker.address)) for _ in range(BEYOND)]
            assert [one.socket.recv(1) for one in further] == [b""] * BEYOND
            assert broker._broker.statistics.closed == {"too_many": BEYOND}
            waiting, asking = clients[::2], clients[1::2]
            held = pull_fields("orders", offset=1, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
            numbers = [one.send(RequestCode.PULL_MESSAGE, **held) for one in waiting]
            wait_until(lambda: len(broker._broker.holds) == len(waiting))
            asked = [one.send(RequestCode.GET_MAX_OFFSET, topic="orders", queueId=0) for one in asking]
            answers = [one.answer(number) for one, number in zip(asking, asked, strict=True)]
            assert {(one.code, one.fields["offset"]) for one in answers} == {(ResponseCode.SUCCESS, "1")}
            assert resident_bytes() - memory < (MOST + BEYOND) * BYTES_EACH
            asking[0].put("orders", b"to all")
            got = [bodies(one.answer(number)) for one, number in zip(waiting, numbers, strict=True)]
            assert got == [[b"to all"]] * len(waiting)
        wait_until(lambda: broker._server.open_connections == 0)
        assert (len(broker._broker.holds), broker._server.input_bytes) == (0, 0)
        wait_until(lambda: open_files() <= files + FURTHER_FILES)
        wait_until(lambda: connections_left() == left)
    assert_sound(tmp_path / "store")
