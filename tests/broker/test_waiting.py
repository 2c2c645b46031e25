"""Requests that wait: bounded, and each ends once, by its deadline, by hand or with its connection."""

from __future__ import annotations

import asyncio

import pytest

from reput.broker.services import waiting
from reput.broker.services.waiting import WaitingRequest, WaitingRequests


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request waits above the number or the bytes; one that is removed makes space for the next."""
    monkeypatch.setattr(waiting, "MAX_WAITING_BYTES", 10)
    loop = asyncio.new_event_loop()
    try:
        requests = WaitingRequests[WaitingRequest](loop, lambda _: None)
        small, large, last = WaitingRequest("a", 3), WaitingRequest("a", 8), WaitingRequest("b", 7)
        assert requests.add(small, 2, 1000)
        assert not requests.add(large, 2, 1000)
        assert requests.add(last, 2, 1000)
        assert not requests.add(WaitingRequest("c", 0), 2, 1000)
        assert requests.of_owner("a") == [small]
        assert requests.remove(small)
        assert not requests.remove(small)
        assert small.timer is not None
        assert small.timer.cancelled()
        assert requests.of_owner("a") == []
        assert requests.add(WaitingRequest("c", 3), 2, 1000)
        assert len(requests) == len([*requests]) == 2
    finally:
        loop.close()


def test_a_deadline() -> None:
    """A request ends at its deadline, those that were removed do not, and no wait is above the longest."""

    async def waited() -> list[object]:
        ended, has_ended = list[object](), asyncio.Event()

        def end(request: WaitingRequest) -> None:
            assert requests.remove(request)
            ended.append(request.owner)
            has_ended.set()

        requests = WaitingRequests[WaitingRequest](asyncio.get_running_loop(), end)
        first, second, long = WaitingRequest("first", 1), WaitingRequest("second", 1), WaitingRequest("long", 1)
        assert all(requests.add(one, 9, wait_ms) for one, wait_ms in ((first, 1), (second, 1), (long, 1 << 40)))
        assert requests.remove(second)
        await has_ended.wait()
        assert long.timer is not None
        assert long.timer.when() - asyncio.get_running_loop().time() <= waiting.MAX_WAIT_MS / 1000
        assert list(requests) == [long]
        return ended

    assert asyncio.run(asyncio.wait_for(waited(), 60)) == ["first"]
