"""A database of queues that cannot be read: it is named, other queues or the log answer, and the exit code is 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.errors import DamagedStoreError
from reput.formats.topics.lite_topics import is_light
from support import databases, golden

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.golden

# Its own folder, beside queue files with light queues in it alone, and beside files that have every queue.
NAMES = ["separate", "rocksdb", "lmq-rocksdb", "double"]


@pytest.fixture(params=NAMES)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A store by name, and a copy of it in which a table of the database of queues was cut."""
    store = golden.unpack(request.param, tmp_path)
    for table in databases.folder_of(store).glob("*.sst"):
        table.write_bytes(table.read_bytes()[:-30])
    return request.param, store


def call(*arguments: str | Path) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def light(topic: str) -> bool:
    """Return true if a topic names a light queue."""
    return is_light(topic.encode())


def test_other_queues_are_read(damaged: tuple[str, Path]) -> None:
    """Every queue that is not in the database alone gives the messages that the broker gave."""
    name, store = damaged
    folder = str(databases.folder_of(store))
    asked = [line for line in golden.answers(name) if "queue" in line]
    assert asked
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert [folder in text for text in opened.damage] == [True]
        for line in asked:
            topic, queue_id = line["queue"]
            if name == "lmq-rocksdb" and light(topic):
                with pytest.raises(DamagedStoreError, match=r"consumequeue: .*reput rebuild --only queue"):
                    opened.get_message(topic, queue_id, 0)
                continue
            assert (opened.min_offset(topic, queue_id), opened.max_offset(topic, queue_id)) == (
                line["min"],
                line["max"],
            )
            assert len([*opened.messages(topic, queue_id)]) == line["max"] - line["min"]


def test_keys_are_found(damaged: tuple[str, Path]) -> None:
    """A query by key gives what the broker gave: it needs no queue."""
    name, store = damaged
    asked = [line for line in golden.answers(name) if "key" in line]
    assert asked
    with reput.MessageStore.open(store, read_only=True) as opened:
        for line in asked:
            topic, key, most, *span = line["key"]
            assert opened.query_message(topic, key, most, *span, exact=False).physical_offsets == line["phys"]


def test_verbs_read_the_rest_and_exit_with_1(damaged: tuple[str, Path]) -> None:
    """Verbs that read give what they give of the sound store, name the damage, and exit with 1."""
    name, store = damaged
    topic, key, *_ = next(line["key"] for line in golden.answers(name) if "key" in line and not light(line["key"][0]))
    verbs = [
        ("get", "-t", topic, "--json"),
        ("query", "-t", topic, "--key", key, "--json"),
        ("offset", "-t", topic, "--json"),
        ("progress", "-t", topic, "--json"),
        ("pending timers", "--json"),
        ("pending transactions", "--json"),
    ]
    for verb, *options in verbs:
        sound, result = (call(*verb.split(), place, *options) for place in (golden.shared(name), store))
        assert (sound.return_value, result.return_value) == (0, 1), verb
        assert _answers(result.stdout) == _answers(sound.stdout), verb
        assert f"damage: {databases.folder_of(store)}: cannot open" in result.stderr, verb


def _answers(text: str) -> list[str]:
    """Lines of JSON without the time of the question and the damage, in one order: reads from the log end elsewhere."""
    answers = [json.loads(line) for line in text.splitlines()]
    for answer in answers:
        for name in ("now", "damage", "ok"):
            answer.pop(name, None)
    return sorted(part for answer in answers for part in json.dumps(answer).split(", "))


def test_a_group_in_unreadable_queues_keeps_its_offset(tmp_path: Path) -> None:
    """The committed offset of a light queue that cannot be read is shown, and no advice is given to forget it."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    topic = next(
        line["queue"][0] for line in golden.answers("lmq-rocksdb") if "queue" in line and light(line["queue"][0])
    )
    with reput.MessageStore.open(store) as opened:
        opened.commit_offset("watchers", topic, queue_id=0, offset=1)
    for table in databases.folder_of(store).glob("*.sst"):
        table.write_bytes(table.read_bytes()[:-30])
    result = call("progress", store, "-g", "watchers")
    assert result.return_value == 1
    assert f"watchers\t{topic}\t0\t-\t1\t-" in result.stdout
    assert f"damage: {topic}: the queues cannot be read" in result.stderr
    assert "--clean-topic" not in result.stderr


def test_a_writer_is_refused(damaged: tuple[str, Path]) -> None:
    """A store with such a database is not written: its queues would go on elsewhere."""
    _, store = damaged
    with pytest.raises(DamagedStoreError, match="reput rebuild --only queue"):
        reput.MessageStore.open(store)
