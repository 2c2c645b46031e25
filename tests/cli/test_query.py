"""`reput query` as people and programs call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli, run
from reput.config import StoreConfig
from reput.errors import ConfigError
from support import golden, stores

SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=16, max_index_num=8)
# Two keys of one Java hash.
TWINS = ("Aa", "BB")


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["query", *map(str, arguments)], standalone_mode=False)


def lines(*arguments: object) -> list[dict[str, Any]]:
    """The JSON lines that a call gives."""
    done = call(*arguments, "--json")
    assert done.exception is None, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(params=["indexed", "not indexed"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store with twelve messages in topic `t`, in durable indexes or not yet."""
    store = reput.MessageStore.open(tmp_path / "store", SMALL, create=True)
    for number in range(12):
        message = reput.Message(
            "t", f"b{number}".encode(), tags=f"tag{number % 3}", keys=TWINS[number % 2], unique_key=f"U{number}"
        )
        assert store.put_message(message, number % 4).status is reput.PutStatus.PUT_OK
    store.put_message(reput.Message("other", b"its key is the other's unique key", keys="U3"))
    store.put_message(reput.Message("t", b"its key is another's unique key", keys="U3"))
    store.close(reput=request.param == "indexed")
    return tmp_path / "store"


def bodies(found: list[dict[str, Any]]) -> list[str]:
    """The bodies of JSON lines."""
    return [value["body"] for value in found]


def test_by_key(path: Path) -> None:
    """All messages with a key come in log order, those with a key of the same hash do not; nothing is changed."""
    before = stores.digest(path)
    assert bodies(lines(path, "-t", "t", "--key", "Aa")) == [f"b{n}" for n in range(0, 12, 2)]
    assert bodies(lines(path, "-t", "t", "--key", "BB")) == [f"b{n}" for n in range(1, 12, 2)]
    assert stores.digest(path) == before


def test_the_newest_first_and_then_on(path: Path) -> None:
    """-c gives the newest, says that there are older ones, and --before shows those."""
    done = call(path, "-t", "t", "--key", "Aa", "-c", 2, "--json")
    newest = [json.loads(line) for line in done.stdout.splitlines()]
    assert bodies(newest) == ["b8", "b10"]
    before = newest[0]["physical_offset"]
    assert f"--before {before} shows older ones" in done.stderr
    assert bodies(lines(path, "-t", "t", "--key", "Aa", "--before", before)) == ["b0", "b2", "b4", "b6"]


def test_by_several_keys(path: Path) -> None:
    """With several keys come the newest messages of each, in log order, each once; notes name what is left out."""
    assert bodies(lines(path, "-t", "t", "--key", "Aa", "--key", "BB")) == [f"b{n}" for n in range(12)]
    assert bodies(lines(path, "-t", "t", "--key", "Aa", "--key", "U4")) == [f"b{n}" for n in range(0, 12, 2)]
    done = call(path, "-t", "t", "--key", "Aa", "--key", "nobody's", "-c", 2, "--json")
    assert bodies([json.loads(line) for line in done.stdout.splitlines()]) == ["b8", "b10"]
    assert 'no message of topic t with key "nobody\'s"' in done.stderr
    assert "the newest 2 with key Aa; ask for it alone to see older ones" in done.stderr


def test_an_empty_key_was_no_word_of_the_note(path: Path) -> None:
    """A key that cannot be seen, or has blanks, is in quotes: RocketMQ can store an empty unique key."""
    for key, shown in (("", "''"), ("a b", "'a b'"), ("nobody", "nobody")):
        done = call(path, "-t", "t", "--key", key)
        assert done.return_value == 0
        assert f"no message of topic t with key {shown}\n" in done.stderr


def test_by_unique_key(path: Path) -> None:
    """--unique-key looks at the unique key alone, --key at both."""
    assert bodies(lines(path, "-t", "t", "--unique-key", "U3", "-c", 1)) == ["b3"]
    assert bodies(lines(path, "-t", "t", "--key", "U3")) == ["b3", "its key is another's unique key"]


def test_by_tag(path: Path) -> None:
    """--tags finds messages by their tag."""
    assert bodies(lines(path, "-t", "t", "--tags", "tag1")) == ["b1", "b4", "b7", "b10"]


def test_by_time(path: Path) -> None:
    """--since and --until bound the store time, in milliseconds or as a date; what is outside is said."""
    every = lines(path, "-t", "t", "--key", "Aa")
    last = every[-1]["store_timestamp"]
    assert lines(path, "-t", "t", "--key", "Aa", "--since", every[0]["store_timestamp"], "--until", last) == every
    assert lines(path, "-t", "t", "--key", "Aa", "--since", "2001-02-03T04:05:06Z", "--until", "now") == every
    none = call(path, "-t", "t", "--key", "Aa", "--since", last + 5000)
    assert (none.stdout, none.return_value) == ("", 0)
    assert "no message of topic t with key Aa, stored at or after" in none.stderr
    assert "give milliseconds, now, or a date" in str(
        call(path, "-t", "t", "--key", "Aa", "--until", "tomorrow").exception
    )


def test_by_place(path: Path) -> None:
    """--id and --physical-offset give the one message, without a topic; text is as `dump log` shows it."""
    (wanted,) = lines(path, "-t", "t", "--unique-key", "U5")
    assert lines(path, "--id", wanted["message_id"]) == [wanted]
    assert lines(path, "--id", wanted["message_id"].lower()) == [wanted]
    assert lines(path, "--physical-offset", wanted["physical_offset"]) == [wanted]
    cells = (
        call(path, "--physical-offset", wanted["physical_offset"], "--body-bytes", 1).stdout.rstrip("\n").split("\t")
    )
    assert (cells[2], cells[5], cells[6], cells[7]) == ("t/1", "tag2", "U5 BB", "text:b... (2 bytes)")


def test_no_message_at_a_place(path: Path) -> None:
    """A place without a message, another broker's id, and what is no id are errors that say which."""
    (wanted,) = lines(path, "-t", "t", "--unique-key", "U5")
    good = wanted["message_id"]
    assert "no message starts at log offset 1; the log holds 0 to" in str(call(path, "--physical-offset", 1).exception)
    assert "stored by 127.0.0.1:10911" in str(call(path, "--id", "0A000001" + good[8:]).exception)
    assert "no message starts at" in str(call(path, "--id", good[:-1] + "F").exception)
    assert "--unique-key finds it" in str(call(path, "--id", "U5").exception)
    for id_ in ("U5", good[:-1] + "F"):
        assert isinstance(call(path, "--id", id_).exception, ConfigError)


def test_misuse(path: Path) -> None:
    """One question at a time, a topic where it is needed, and a topic that is there."""
    assert "give one of --key" in str(call(path).exception)
    assert "not --key and --tags" in str(call(path, "-t", "t", "--key", "a", "--tags", "b").exception)
    assert "--key needs -t TOPIC" in str(call(path, "--key", "a").exception)
    assert "no topic others. Near it: other" in str(call(path, "-t", "others", "--key", "a").exception)


def test_what_no_index_holds_is_never_not_found(path: Path) -> None:
    """A configuration without an index is reported as such, and never as "not found"."""
    done = call(path, "-t", "t", "--key", "Aa", "--set", "messageIndexEnable=false")
    assert isinstance(done.exception, ConfigError)
    assert "messageIndexEnable=false" in str(done.exception)


@pytest.mark.golden
def test_an_answer_without_a_cut_index_file_ended_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A query that an IndexFile of a wrong length cannot answer shows what the others have, and exits 1.

    A query by place asks no index, and exits 0.
    """
    store = golden.unpack("basic", tmp_path)
    by_key = ["query", str(store), "-t", "payments", "--key", "k5", "-c", "1000"]
    assert run(by_key) == 0
    whole = capsys.readouterr().out.splitlines()
    second = sorted((store / "index").iterdir())[1]
    second.write_bytes(second.read_bytes()[:-20])
    assert run(by_key) == 1
    shown = capsys.readouterr()
    assert set() < set(shown.out.splitlines()) <= set(whole)
    assert f"damage: {second}: not as long as" in shown.err
    assert run(["query", str(store), "--physical-offset", "0"]) == 0


@pytest.mark.golden
def test_a_store_of_rocketmq() -> None:
    """Keys, unique keys and ids of RocketMQ's own store are found."""
    store = golden.shared("basic")
    found = lines(store, "-t", "payments", "--key", "k5", "-c", 1000)
    assert len(found) > 3
    assert all("k5" in value["keys"] for value in found)
    unique = next(value["unique_key"] for value in found if value["unique_key"])
    assert [value["unique_key"] for value in lines(store, "-t", "payments", "--unique-key", unique)] == [unique]
    assert lines(store, "--id", found[-1]["message_id"]) == [found[-1]]


def test_a_place_of_another_topic_is_refused(path: Path) -> None:
    """--physical-offset and --id with -t refuse a message of another topic, and bounds of time."""
    (other,) = lines(path, "-t", "other", "--key", "U3")
    for place in (("--physical-offset", other["physical_offset"]), ("--id", other["message_id"])):
        assert lines(path, *place, "-t", "other") == [other]
        refused = call(path, *place, "-t", "t")
        assert not refused.stdout
        assert "is of topic other, not t" in str(refused.exception)
        assert "leave out --since" in str(call(path, *place, "--since", "1").exception)


@pytest.mark.parametrize("words", [("--key", "o-1"), ("--key", "o-1", "--key", "o-2"), ("--tags", "rare")])
def test_a_message_that_the_database_leaves_out_was_just_not_there(words: tuple[str, ...], tmp_path: Path) -> None:
    """A note says which messages the index database does not have, if it alone answers and finds nothing.

    IndexFiles have every message with a key, and a unique key is asked for of messages that have one.
    """
    left_out = "has no message without a unique key (UNIQ_KEY)"
    store = golden.unpack("index-rocksdb", tmp_path)
    with reput.MessageStore.open(store) as opened:
        opened.put_message(reput.Message("orders", b"without", keys="o-1", tags="rare"), 0)
        # The database is complete up to its last entry, and readers find what follows in the log.
        opened.put_message(reput.Message("orders", b"with", keys="o-3", unique_key="U3"), 0)
    done = call(store, "-t", "orders", *words)
    assert (done.return_value, done.stdout) == (0, "")
    assert done.stderr.count(left_out) == 1
    assert "the index in RocksDB alone answers here" in done.stderr
    assert left_out not in call(store, "-t", "orders", "--unique-key", "o-1").stderr
    files = golden.unpack("json", tmp_path)
    assert left_out not in call(files, "-t", "orders", "--key", "none").stderr
