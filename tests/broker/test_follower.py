"""A broker whose durable indexes a follower builds, in a process of its own."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import reput
from broker.popping import pop
from broker.remoting import Client
from reput.broker import follower
from reput.errors import ReputError
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.search import takes_long
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_follower_builds_the_indexes_of_a_broker(tmp_path: Path) -> None:
    """The follower's indexes go as far as the log, it ends with the broker, and the store is sound."""
    path = tmp_path / "store"
    with reput.serve(path, topics=["orders"], follow=True, spark=False) as broker:
        follower = broker.follower
        assert follower is not None
        with Client(broker.address) as client:
            for _ in range(20):
                assert client.put("orders").code == ResponseCode.SUCCESS
        end = broker._store.view.confirmed()
        wait_until(lambda: follower.progress.get("durable", 0) >= end)
        assert broker._store.is_followed
    assert follower._process.poll() is not None
    assert follower.failure is None
    assert_sound(path)


def test_a_follower_has_the_settings_of_the_broker(tmp_path: Path) -> None:
    """Settings of the store reach the follower, which refuses those that contradict the files."""
    path = tmp_path / "store"
    config = reput.StoreConfig(mapped_file_size_commit_log=1 << 20, flush_disk_type="SYNC_FLUSH")
    with reput.serve(path, topics=["orders"], config=config, follow=True, spark=False) as broker:
        follower = broker.follower
        assert follower is not None
        wait_until(lambda: follower.progress)
        assert follower.failure is None
    assert_sound(path)


def test_a_follower_that_fails_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log has its last words once, clients are served on, and the broker builds the indexes."""
    path = tmp_path / "store"
    reput.MessageStore.open(path, create=True).close()
    with (
        reput.follow(path, spark=False),
        caplog.at_level(logging.ERROR, "reput.broker"),
        reput.serve(path, topics=["orders"], follow=True, spark=False) as broker,
    ):
        wait_until(lambda: broker.follower is not None and broker.follower.failure)
        with Client(broker.address) as client:
            assert client.put("orders").code == ResponseCode.SUCCESS
    (line,) = [record.getMessage() for record in caplog.records if "follower" in record.getMessage()]
    assert "exit code" in line
    assert "another follower" in line or "follow" in line
    assert_sound(path)


def test_a_follower_ends_when_its_broker_is_killed(tmp_path: Path) -> None:
    """Nothing is left of a broker after kill -9: the follower sees the end of its stdin."""
    words = [sys.executable, "-m", "reput", "serve", str(tmp_path / "store"), "--port", "0", "--json"]
    words += ["--follow", "--no-spark"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        children: list[Any] = []
        wait_until(lambda: children.extend(psutil.Process(process.pid).children()) or children)
        process.send_signal(signal.SIGKILL)
        gone, alive = psutil.wait_procs(children, timeout=60)
    assert (len(gone), alive) == (1, [])


@takes_long
@pytest.mark.spark
def test_a_follower_on_spark_builds_the_indexes_until_it_is_killed(tmp_path: Path) -> None:
    """`reput serve --follow` has the indexes built on Spark; a follower that is killed has a line in the log.

    Then the broker serves on, and builds the indexes itself at its end. No process is left.
    """
    store, words = tmp_path / "store", [sys.executable, "-m", "reput", "serve"]
    words += [str(store), "--port", "0", "--json", "--log-format", "json", "--follow", "--master", "local[1]"]
    with (tmp_path / "log").open("w+b") as log, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with Client(address) as client:
                for _ in range(50):
                    assert client.put("orders").code == ResponseCode.SUCCESS
                wait_until(lambda: has_all_indexes(store), most_s=120)
                processes = psutil.Process(process.pid).children(recursive=True)
                assert any("java" in one.name() for one in processes)
                (follower,) = psutil.Process(process.pid).children()
                follower.kill()
                wait_until(lambda: b"has ended (exit code -9" in (tmp_path / "log").read_bytes())
                assert client.put("orders").code == ResponseCode.SUCCESS
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert psutil.wait_procs(processes, 60)[1] == []
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["level"] for line in lines if "follower of" in line["message"]] == ["error"]
    assert has_all_indexes(store)
    assert_sound(store)


def has_all_indexes(store: Path) -> bool:
    """Return True if the durable indexes have all messages of a store, which another process may write."""
    with reput.MessageStore.open(store, read_only=True) as reader:
        return reader.max_offset("orders", 0) > 0 and reader.behind_bytes == 0


def test_a_follower_that_is_killed_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a follower is logged though a process that it has started keeps its pipes, as Spark's Java may."""
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    start = subprocess.Popen
    monkeypatch.setattr(follower.subprocess, "Popen", lambda _, **named: start([sys.executable, "-c", code], **named))
    process = follower.FollowerProcess(tmp_path)
    begun_s = time.monotonic()
    try:
        wait_until(lambda: process.failure)
        assert time.monotonic() - begun_s < 30
        assert process.failure is not None
        assert "exit code 0" in process.failure
    finally:
        os.killpg(process._process.pid, signal.SIGKILL)
        process.stop()


@pytest.mark.parametrize(
    "arguments",
    [{"follow": "loop"}, {"spark": False}, {"follow": True, "spark": object()}, {"master": "local"}],
)
def test_wrong_arguments_of_a_follower_are_refused(arguments: dict[str, Any]) -> None:
    """A follower takes no session: it is another process."""
    with pytest.raises(reput.ConfigError, match=r"follow|spark"):
        reput.serve(**arguments)


def test_a_deletion_that_the_store_refused_took_the_topic_from_its_groups(tmp_path: Path) -> None:
    """Beside a follower no topic can be deleted: its queues, and what a group holds of them, stay as they are."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 2}, follow=True, spark=False) as broker, Client(broker.address) as client:
        follower = broker.follower
        assert follower is not None
        assert client.put("orders", b"held").code == ResponseCode.SUCCESS
        wait_until(lambda: follower.progress.get("durable", 0) > 0)
        assert [one.body for one in pop(client, invisibleTime=3000)] == [b"held"]
        refused = client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="orders")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "follow" in (refused.remark or "")
        assert broker._broker.topics.get("orders")["readQueueNums"] == 2
        assert [one.body for one in pop(client, pollTime=20_000)] == [b"held"]
    assert_sound(path)


def test_a_follower_that_could_not_be_started_was_an_error_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the store, and the broker has let go of it."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(follower.subprocess, "Popen", refused)
    path = tmp_path / "store"
    with pytest.raises(ReputError, match="cannot be started: Resource temporarily unavailable"):
        reput.serve(path, follow=True, spark=False)
    monkeypatch.undo()
    reput.MessageStore.open(path).close()
    assert_sound(path)
