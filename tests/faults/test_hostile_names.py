"""Names from logs, from callers and from commands never leave the store's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import ReputError
from reput.formats import paths
from support import stores
from support.opened import CONFIG
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ESCAPES = ["../escape", "..", ".", "/escape", "a/../../escape", "a\0b", "", "t" * 256]
"""Names of topics that would lead out of the store, or that no folder can have."""


def outside(folder: Path) -> set[str]:
    """List everything below a folder, but for what is in its store."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if folder / "store" not in path.parents}


def queue_names(store: Path) -> set[str]:
    """The topics that have a folder of queues."""
    folder = store / paths.CONSUME_QUEUE
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("topic", ESCAPES, ids=lambda topic: repr(topic[:12]))
def test_a_topic_of_a_log(tmp_path: Path, topic: str) -> None:
    """A record whose topic is no folder's name gives no queue anywhere; the messages around it have theirs."""
    log = LogBuilder()
    log.message("before")
    if len(topic) <= 127:
        log.message(topic)
    else:
        log.message(topic, magic=LogBuilder().message("x" * 200).record.magic)
    log.message("after")
    store = stores.with_log(tmp_path, log)
    before = outside(tmp_path)
    for options in ({}, {"salvage": True}):
        try:
            reput.rebuild(store, spark=False, config=stores.SMALL, **options)  # type: ignore[arg-type]
        except ReputError:
            assert not options
    assert outside(tmp_path) == before
    assert queue_names(store) == {"before", "after"}
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert set(opened.topics()) == {"before", "after"}


@pytest.mark.parametrize(
    "further", ["../escape,%LMQ%a", "%LMQ%../escape,%LMQ%a", "%LMQ%a/../../b,%LMQ%a", "%LMQ%\0,%LMQ%a"], ids=repr
)
def test_a_further_queue_of_a_log(tmp_path: Path, further: str) -> None:
    """Names of further queues are names of folders, or none."""
    log = LogBuilder()
    log.message("orders", more={"INNER_MULTI_DISPATCH": further, "INNER_MULTI_QUEUE_OFFSET": "0,0"})
    store = stores.with_log(tmp_path, log)
    before = outside(tmp_path)
    reput.rebuild(store, spark=False, config=stores.SMALL)
    assert outside(tmp_path) == before
    assert queue_names(store) <= {"orders", "%LMQ%a"}


def _put(store: reput.MessageStore, topic: str) -> object:
    result = store.put_message(reput.Message(topic, b"body"))
    assert result.status is not reput.PutStatus.PUT_OK
    raise reput.ReputError(result.reason)


CALLS: dict[str, Callable[[reput.MessageStore, str], object]] = {
    "put_message": _put,
    "get_message": lambda store, topic: store.get_message(topic, 0, 0),
    "query_message": lambda store, topic: store.query_message(topic, "k"),
    "offset_by_time": lambda store, topic: store.offset_by_time(topic, 0, 0),
    "commit_offset": lambda store, topic: store.commit_offset("g", topic, 0, 1),
    "delete_topic": lambda store, topic: store.delete_topic(topic),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("topic", ESCAPES, ids=lambda topic: repr(topic[:12]))
def test_a_topic_of_a_caller(tmp_path: Path, topic: str, call: str) -> None:
    """A call with such a topic is refused, and nothing outside of the store changes."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        store.put_message(reput.Message("orders", b"body"))
        before = outside(tmp_path)
        with pytest.raises(ReputError):
            CALLS[call](store, topic)
    assert outside(tmp_path) == before
    assert queue_names(tmp_path / "store") <= {"orders"}


@pytest.mark.parametrize("verb", ["get", "put", "delete", "offset", "rebuild"])
@pytest.mark.parametrize("topic", ["../escape", "..", "a/b", "t" * 256], ids=lambda topic: repr(topic[:12]))
def test_a_topic_of_a_command(tmp_path: Path, topic: str, verb: str) -> None:
    """A command with such a topic ends with an error, and nothing outside of the store changes."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        store.put_message(reput.Message("orders", b"body"))
    (tmp_path / "escape").mkdir()
    (tmp_path / "escape" / "0").write_text("precious")
    before = outside(tmp_path)
    named = ["--topic", topic, "--no-spark"] if verb == "rebuild" else ["-t", topic]
    done = CliRunner().invoke(cli, [verb, str(tmp_path / "store"), *named], input="line\n")
    assert done.exit_code != 0 or verb == "rebuild"
    assert outside(tmp_path) == before
    assert (tmp_path / "escape" / "0").read_text() == "precious"
    assert queue_names(tmp_path / "store") == {"orders"}
