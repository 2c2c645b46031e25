"""`reput get --json | reput put --json-lines` copies messages without a loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.cli.main import cli
from reput.errors import ConfigError
from reput.formats.log.properties import decode_properties
from support import golden
from support.checked import assert_sound

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x01\x02"), min_size=1, max_size=12)
KEYS = st.lists(TEXT.map(lambda text: text.replace(" ", "_")), max_size=3)
NAMES = TEXT.filter(lambda name: name not in {"DELAY", "TAGS", "KEYS", "UNIQ_KEY"} and not name.startswith("INNER_"))
MESSAGES = st.builds(
    reput.Message,
    topic=st.sampled_from(["orders", "clicks"]),
    body=st.one_of(st.binary(max_size=60), st.text(st.characters(blacklist_categories=["Cs"])).map(str.encode)),
    tags=st.none() | TEXT,
    keys=st.none() | KEYS,
    properties=st.none() | st.dictionaries(NAMES, TEXT, max_size=4),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sys_flag=st.sampled_from([0, 0x1, 0x1 | 0x300]),
    born_timestamp=st.none() | st.integers(0, (1 << 42)),
    unique_key=st.none() | TEXT,
)


def call(*arguments: object, stdin: str | None = None) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, [*map(str, arguments)], input=stdin, standalone_mode=False)


def copied(source: Path, target: Path, *topics: str) -> None:
    """Copy all messages of some topics by the two commands."""
    reported = call(
        "get", source, *(word for topic in topics for word in ("-t", topic)), "-c", 10_000, "--json", "--body", "raw"
    )
    assert reported.exception is None, reported.exception
    done = call("put", target, "--json-lines", "--create", stdin=reported.stdout)
    assert done.exception is None, done.exception


def content(store: Path, *topics: str) -> list[tuple[Any, ...]]:
    """Read the contents of messages, queue by queue."""
    with reput.MessageStore.open(store, read_only=True) as opened:
        return [
            (info.topic, info.queue_id, *said(message)) for topic in topics for info in opened.queues(topic)
            for offset in range(info.min_offset, info.max_offset)
            for message in opened.get_message(topic, info.queue_id, offset, 1)
        ]  # fmt: skip


def said(message: Any) -> tuple[Any, ...]:
    """Return the part of a message that its sender chose."""
    properties = decode_properties(message.record.properties)
    return message.body, list(properties.items()), message.flag, message.sys_flag & 0x701, message.born_timestamp


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(MESSAGES, st.integers(0, 2)), min_size=1, max_size=25))
def test_a_copy_says_the_same(tmp_path_factory: pytest.TempPathFactory, put: list[tuple[reput.Message, int]]) -> None:
    """Bodies of any bytes, properties in their order, times and flags come through, in the same queues."""
    folder = tmp_path_factory.mktemp("copy")
    with reput.MessageStore.open(folder / "from", create=True) as store:
        for message, queue_id in put:
            assert store.put_message(message, queue_id).status is reput.PutStatus.PUT_OK
        topics = sorted({message.topic for message, _ in put})
    copied(folder / "from", folder / "to", *topics)
    assert content(folder / "to", *topics) == content(folder / "from", *topics)
    assert_sound(folder / "to")


@pytest.mark.golden
def test_a_store_of_rocketmq_is_copied(tmp_path: Path) -> None:
    """RocketMQ's own messages come through, all queues of a topic at once."""
    basic = golden.shared("basic")
    copied(basic, tmp_path / "to", "orders")
    assert content(tmp_path / "to", "orders") == content(basic, "orders")


LINE = {"topic": "t", "body": "one", "body_encoding": "text", "body_truncated": False, "physical_offset": 9}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"body_truncated": True}, "--body-bytes"),
        ({"sys_flag": 0x80}, "a batch"),
        ({"transaction": "prepared"}, "transaction prepared"),
        ({"body_encoding": "hex"}, "text or base64"),
        ({"properties": {"TAGS": "a"}, "tags": "b"}, "TAGS is given twice"),
        ({"physical_ofset": 1}, "no field"),
    ],
    ids=repr,
)
def test_what_would_be_another_message_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    """A line that cannot be put as it is ends the command, and nothing is stored."""
    done = call("put", tmp_path / "store", "--json-lines", "--create", stdin=json.dumps(LINE | change) + "\n")
    assert isinstance(done.exception, ConfigError)
    assert says in str(done.exception)


def test_a_copy_drops_reconsume_times(tmp_path: Path) -> None:
    """A copy keeps how often a message came back; a committed transaction becomes a plain message."""
    committed = reput.Message("t", b"one", reconsume_times=3, sys_flag=8)
    with reput.MessageStore.open(tmp_path / "from", create=True) as store:
        assert store.put_message(committed).status is reput.PutStatus.PUT_OK
        assert store.put_message(reput.Message("t", b"two", reconsume_times=1, keys="k")).queue_offset == 1
    copied(tmp_path / "from", tmp_path / "to", "t")
    found = []
    for path in (tmp_path / "from", tmp_path / "to"):
        lines = call("get", path, "-t", "t", "--json").stdout.splitlines()
        found.append([(one["reconsume_times"], one["transaction"]) for one in map(json.loads, lines)])
    assert found == [[(3, "commit"), (1, None)], [(3, None), (1, None)]]
    assert_sound(tmp_path / "to")


def test_what_the_store_gives_anew_is_passed_over(tmp_path: Path) -> None:
    """Offsets, times and hosts of another store are no fields of a put."""
    assert call("put", tmp_path / "store", "--json-lines", "--create", stdin=json.dumps(LINE) + "\n").exception is None
    (got,) = [json.loads(line) for line in call("get", tmp_path / "store", "-t", "t", "--json").stdout.splitlines()]
    assert (got["body"], got["physical_offset"]) == ("one", 0)
