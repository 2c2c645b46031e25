"""uvloop and orjson, which make a broker faster: it takes them where they are installed, and serves as without them."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, bodies, pull_fields
from reput.broker.wire.listener import new_loop
from reput.formats.wire import remoting
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULES = {
    "uvloop": "import asyncio\nclass Loop(asyncio.SelectorEventLoop): pass\ndef new_event_loop(): return Loop()\n",
    "orjson": "import json\ndef loads(data): return json.loads(data)\n",
}


@pytest.fixture
def other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that take the places of uvloop and orjson."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("other_modules")
def test_modules_that_are_installed_are_taken() -> None:
    """The loop is uvloop's, and JSON is read by orjson, if modules of these names are there."""
    loop = new_loop()
    loop.close()
    assert type(loop).__module__ == "uvloop"
    assert remoting._json_reader().__module__ == "orjson"


def test_a_broker_needs_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the modules the loop is asyncio's, and JSON is read by Python's reader."""
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    loop = new_loop()
    loop.close()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    assert remoting._json_reader()(b'{"a":1}') == {"a": 1}


def has_loop_of(name: str, broker: reput.RunningBroker) -> bool:
    """Return True if a module has made the loop of a broker."""
    return type(broker._loop).__module__.partition(".")[0] == name


def test_a_broker_serves_on_a_loop_of_uvloop(tmp_path: Path) -> None:
    """On uvloop's loop messages are stored and pulled, slow readers wait, and a stop answers a held pull."""
    pytest.importorskip("uvloop", reason="uvloop is not installed: pip install 'reput[serve]'")
    with reput.serve(tmp_path / "store", topics=["orders"]) as broker:
        assert has_loop_of("uvloop", broker)
        with Client(broker.address) as client:
            for number in range(4):
                assert client.put("orders", bytes([number]) * (1 << 20)).code == ResponseCode.SUCCESS
            pulls = [(RequestCode.PULL_MESSAGE, b"", 0, pull_fields("orders", offset=n % 4)) for n in range(32)]
            numbers = client.send_all(pulls)
            wait_until(lambda: any(one.waiting for one in broker._server._connections))
            assert [bodies(client.answer(number))[0][0] for number in numbers] == [n % 4 for n in range(32)]
            held = pull_fields("orders", offset=4, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
            number = client.send(RequestCode.PULL_MESSAGE, **held)
            wait_until(lambda: len(broker._broker.holds) == 1)
            broker.close()
            assert client.answer(number).code == ResponseCode.PULL_NOT_FOUND
    assert_sound(tmp_path / "store")


def test_headers_are_the_same_by_orjson() -> None:
    """Headers that clients send are read alike, and what is no JSON is a FrameError."""
    pytest.importorskip("orjson", reason="orjson is not installed: pip install 'reput[serve]'")
    read = remoting._json_reader()
    assert read.__module__ == "orjson"
    fields = {"topic": "Aufträge \U0001f600", "i": 'TAGS\x01a\x02"\\', "n": 1 << 62, "f": -0.5, "x": None, "y": True}
    header = {"code": 310, "opaque": 7, "flag": 0, "language": "JAVA", "version": 513, "extFields": fields}
    for data in (json.dumps(header).encode(), json.dumps(header, ensure_ascii=False, indent=1).encode()):
        assert read(data) == remoting._plain_json(data) == header
    for wrong in (b"", b"{", b"{}x", b"\xff", b'{"a":}', b"[" * 100_000):
        with pytest.raises((ValueError, RecursionError)):
            read(wrong)
