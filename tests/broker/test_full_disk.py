"""A full disk: sends are refused, pulls go on, and the log says when that begins and ends."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any

import reput
from broker.remoting import Client, bodies, send_fields
from reput.broker import server
from reput.files import fs
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.append import append_file
from support.checked import assert_sound
from support.disks import failing, fill, mounted, remount
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

R, C = RequestCode, ResponseCode


def test_a_full_disk_refuses_sends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a send is refused with 14, pulls are served, and with room again sends are, too."""
    monkeypatch.setattr(append_file, "RESERVE_STEP", 4096)
    path, config = tmp_path / "store", reput.StoreConfig(mapped_file_size_commit_log=1 << 14)

    def full(*_arguments: Any, **_named: Any) -> None:
        with fs.errors_named("somewhere", "reserve"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with reput.serve(path, topics=["orders"], config=config) as broker, Client(broker.address) as client:
        stored = 0
        with monkeypatch.context() as patch:
            patch.setattr(fs, "reserve", full)
            while (answer := client.put("orders", b"%d" % stored)).code == C.SUCCESS:
                stored += 1
            assert (answer.code, "full" in str(answer.remark)) == (C.SERVICE_NOT_AVAILABLE, True)
            numbers = client.send_all([(R.SEND_MESSAGE_V2, b"x", 0, send_fields("orders")) for _ in range(3)])
            assert {client.answer(number).code for number in numbers} == {C.SERVICE_NOT_AVAILABLE}
            assert bodies(client.pull("orders"))[:1] == ([b"0"] if stored else [])
        assert client.put("orders", b"%d" % stored).code == C.SUCCESS
        assert client.ask(R.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"] == str(stored + 1)
    assert_sound(path)


def test_a_full_disk_had_no_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says once that messages are refused, sends and those sent back alike, and once that they are not."""
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if "messages are " in record.getMessage()]

    config = reput.StoreConfig(mapped_file_size_commit_log=1 << 14)
    with reput.serve(tmp_path / "store", topics=["orders"], config=config) as broker, Client(broker.address) as client:
        assert client.put("orders").code == C.SUCCESS
        client.make_group("team")
        with monkeypatch.context() as patch:
            patch.setattr(fs, "open_sized", failing(fs.open_sized, errno.ENOSPC, 1, "commitlog"))
            while client.put("orders", bytes(2000)).code == C.SUCCESS:
                pass
            for _ in range(3):
                assert client.put("orders", bytes(2000)).code == C.SERVICE_NOT_AVAILABLE
                refused = client.ask(R.CONSUMER_SEND_MSG_BACK, offset=0, group="team", delayLevel=0)
                if refused.code != C.SUCCESS:
                    assert (refused.code, "disk is full" in str(refused.remark)) == (C.SERVICE_NOT_AVAILABLE, True)
            assert refused.code == C.SERVICE_NOT_AVAILABLE
            time.sleep(0.2)
        assert len(lines()) == 1
        assert "Make room on this file system" in lines()[0]
        wait_until(lambda: client.put("orders", bytes(2000)).code == C.SUCCESS and len(lines()) == 2)
        assert lines()[1] == "messages are stored again: the disk has room"
    assert_sound(tmp_path / "store")


def test_a_disk_without_room_refuses_sends_alone(tmp_path: Path) -> None:
    """On a file system without room sends are refused in RocketMQ's words, pulls go on, and with room sends, too."""
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 60_000}
    config = reput.StoreConfig(**sizes, max_hash_slot_num=5000, max_index_num=20_000)
    with mounted(tmp_path / "small", "16m") as folder:
        path = folder / "store"
        with reput.serve(path, topics=["orders"], config=config) as broker, Client(broker.address) as client:
            assert client.put("orders", b"first").code == C.SUCCESS
            client.make_group("readers")
            fill(folder)
            stored = 1
            while (answer := client.put("orders", bytes(50_000))).code == C.SUCCESS:
                stored += 1
            assert (answer.code, "the broker's disk is full" in str(answer.remark)) == (C.SERVICE_NOT_AVAILABLE, True)
            made = client.put("made-on-a-full-disk")
            assert (made.code, "the broker's disk is full" in str(made.remark)) == (C.SERVICE_NOT_AVAILABLE, True)
            assert bodies(client.pull("orders"))[0] == b"first"
            commit = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1}
            assert client.ask(R.UPDATE_CONSUMER_OFFSET, **commit).code == C.SUCCESS
            (folder / "filler").unlink()
            remount(folder, "size=64m")
            wait_until(lambda: client.put("orders", b"last").code == C.SUCCESS)
            assert bodies(client.pull("orders", offset=stored)) == [b"last"]
            assert client.put("made-on-a-full-disk").code == C.SUCCESS
        assert_sound(path, config)
