"""The log of a command on stderr, for people and for programs."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from broker.remoting import Client
from reput.cli.shared.log_lines import FORMATS, JSON, TEXT, logged
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("reput.broker.test")


def test_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of text has the level and the message."""
    with logged("reput.broker", TEXT):
        log.warning("%d connections", 3)
    log.warning("after it")
    assert capsys.readouterr().err == "warning: 3 connections\n"


def test_a_line_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of JSON has all fields, null where there is nothing to say; an error has its trace."""
    with logged("reput.broker", JSON):
        log.warning("wörter\n%s", "two", extra={"connection": 7, "remote": "127.0.0.1:1", "code": 10})
        log.error("failed", exc_info=OSError("no"))
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert datetime.now(UTC) - datetime.fromisoformat(first.pop("time")) < timedelta(minutes=1)
    assert first == {
        "level": "warning",
        "logger": "reput.broker.test",
        "message": "wörter\ntwo",
        "connection": 7,
        "code": 10,
        "remote": "127.0.0.1:1",
    }
    assert (second["connection"], second["level"]) == (None, "error")
    assert "OSError: no" in second["exception"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_log_of_a_broker(form: str, tmp_path: Path) -> None:
    """TLS and HTTP/2 on the port have one clear line each, a code that is not served has one however often it comes."""
    words = [sys.executable, "-m", "reput", "serve", str(tmp_path / "store"), "--port", "0", "--json"]
    with subprocess.Popen([*words, "--log-format", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        for greeting in (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with Client(address) as wrong:
                wrong.socket.sendall(greeting)
                with pytest.raises(ConnectionResetError):
                    wrong.receive()
        with Client(address) as client:
            for code in (8_888, 8_888, 8_889):
                assert client.ask(code).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            own = "{}:{}".format(*client.socket.getsockname())
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    lines = errors.decode().splitlines()
    if form == JSON:
        found = [json.loads(line) for line in lines]
        assert [(one["code"], one["remote"] == own) for one in found[-2:]] == [(8_888, True), (8_889, True)]
        assert len({one["connection"] for one in found if one["connection"]}) == 3
        lines = [one["message"] for one in found]
    for words_of in ("TLS", "HTTP/2", "code 8888 ", "code 8889 "):  # a client's port may have the number too
        assert len([line for line in lines if words_of in line]) == 1, words_of
