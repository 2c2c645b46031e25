"""`reput put` as people and programs call it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.cli.put import lines as put_lines
from reput.cli.put.lines import lines_of
from reput.errors import ConfigError, DamagedStoreError, NotAStoreError
from reput.files import locks
from reput.formats import paths
from reput.formats.own import files as own
from support import golden
from support.checked import assert_sound

SMALL = ("--set", "mappedFileSizeCommitLog=65536")


def call(text: str | bytes, *arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["put", *map(str, arguments)], input=text, standalone_mode=False)


def objects(*values: object) -> str:
    """Lines of JSON."""
    return "".join(f"{json.dumps(value)}\n" for value in values)


def stored(path: Path, topic: str = "t", queue_id: int = 0) -> list[Any]:
    """The messages of a queue."""
    with reput.MessageStore.open(path, read_only=True) as store:
        return store.get_message(topic, queue_id, 0, 100_000).messages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder in which a store may be made."""
    return tmp_path / "store"


# --- lines of text --------------------------------------------------------------------------------


def test_a_line_is_a_body(path: Path) -> None:
    """Each line is stored in order with the options' queue, keys, tag and properties; empty ones and the last count."""
    done = call(
        b"a\n\n\xff\nlast", path, "-t", "t", "-q", 2, "--key", "k1", "--key", "k2", "--tags", "x",
        "--property", "n=a=b", "--create", *SMALL,
    )  # fmt: skip
    assert done.return_value == 0
    found = stored(path, "t", 2)
    assert [message.body for message in found] == [b"a", b"", b"\xff", b"last"]
    assert {(*message.keys, message.tags, message.properties["n"]) for message in found} == {("k1", "k2", "x", "a=b")}
    assert "stored 4 messages" in done.stderr
    places = [f"t/2\t{m.queue_offset}\t{m.physical_offset}\t{len(m.raw)}" for m in found]
    assert done.stdout.splitlines() == places


def test_indexes_are_caught_up_at_the_end(path: Path) -> None:
    """At the end of the command the durable indexes are those of a rebuild; with --no-reput they lag."""
    assert call("a\nb\n", path, "-t", "t", "--create", *SMALL).return_value == 0
    assert_sound(path)
    assert not (path / paths.ABORT).exists()
    assert call("c\n", path, "-t", "t", "--no-reput").return_value == 0
    assert (path / paths.ABORT).exists()
    assert [message.body for message in stored(path)] == [b"a", b"b", b"c"]
    assert call("", path, "-t", "t").return_value == 0
    assert_sound(path)
    assert not (path / paths.ABORT).exists()


def test_a_store_is_made_only_when_told(path: Path) -> None:
    """Without --create a folder that holds no store stays as it is; the error names the option."""
    done = call("a\n", path, "-t", "t")
    assert isinstance(done.exception, NotAStoreError)
    assert "--create" in str(done.exception)
    assert not path.exists()
    path.mkdir()
    (path / "other").write_text("someone's")
    assert isinstance(call("a\n", path, "-t", "t", "--create").exception, NotAStoreError)
    # Nothing that --create would not do is advised.
    assert "--create" not in str(call("a\n", path, "-t", "t").exception)


def test_a_topic_that_rocketmq_refuses_is_refused(path: Path) -> None:
    """A name that no client may use is an error before a store is made; --any-topic takes what a store can hold."""
    for topic in ("my topic", "é", "t" * 128, " "):
        done = call("a\n", path, "-t", topic, "--create", *SMALL)
        assert "RocketMQ refuses this name" in str(done.exception)
        assert not path.exists()
    assert call("a\n", path, "-t", "my topic", "--any-topic", "--create", *SMALL).return_value == 0
    lines = objects({"body": "b", "topic": "my topic"})
    assert isinstance(call(lines, path, "--json-lines").exception, ConfigError)
    assert call(lines, path, "--json-lines", "--any-topic").return_value == 0
    assert [message.body for message in stored(path, "my topic")] == [b"a", b"b"]
    assert_sound(path)


def test_many_lines_over_many_files(path: Path) -> None:
    """More lines than a batch holds, over several files of the log, come out in order; so does each one's place."""
    count = 3000
    done = call("".join(f"{n}\n" for n in range(count)), path, "-t", "t", "--create", "--json", *SMALL)
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    found = stored(path)
    assert [int(message.body) for message in found] == list(range(count))
    assert [value["line"] for value in shown] == list(range(1, count + 1))
    assert [value["physical_offset"] for value in shown] == [message.physical_offset for message in found]
    assert len(list((path / paths.COMMIT_LOG).iterdir())) > 3
    assert_sound(path)


def test_room_in_the_tail_is_made_in_between(path: Path) -> None:
    """More messages than the tail may hold go through: the indexes catch up on the way."""
    lines = "".join(f"{n}\n" for n in range(5000))
    assert call(lines, path, "-t", "t", "--create", "--set", "tailMaxEntries=2000", *SMALL).return_value == 0
    assert len(stored(path)) == 5000
    assert_sound(path)


def test_sync_flush(path: Path) -> None:
    """--sync puts with sync flush, and reports the same."""
    done = call("a\nb\n", path, "-t", "t", "--create", "--sync", *SMALL)
    assert (done.return_value, len(done.stdout.splitlines())) == (0, 2)


def test_a_refused_line_ends_it_once(path: Path) -> None:
    """Lines before one that the store refuses are stored once, and lines after it are not."""
    big = "x" * 70_000
    lines = "".join(f"{n}\n" for n in range(1200)) + big + "\nafter\n"
    done = call(lines, path, "-t", "t", "--create", *SMALL)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("line 1201: MESSAGE_ILLEGAL: ")
    assert [int(message.body) for message in stored(path)] == list(range(1200))
    assert "stored 1,200 messages" in done.stderr
    assert_sound(path)


def test_a_report_that_nobody_reads_stops_no_put(path: Path) -> None:
    """A reader of the report that leaves early does not stop the put."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "reput", "put", str(path), "-t", "t", "--create", *SMALL]
    done = subprocess.run(
        command, input=b"line\n" * 5000, stdout=write, stderr=subprocess.PIPE, check=False, timeout=120
    )
    os.close(write)
    assert done.returncode == 0, done.stderr
    assert len(stored(path)) == 5000


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(number: signal.Signals, code: int, path: Path) -> None:
    """A line of a pipe is stored and reported as it comes; a signal ends it, and what was stored is indexed."""
    command = [sys.executable, "-m", "reput", "put", str(path), "-t", "t", "--create", *SMALL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"first\nhalf a l")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"t/0\t0\t")
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr is not None
        assert process.stderr.read().decode() == (
            f"stored 1 message\nended by {number.name}\n1 line of stdin taken, line 2 comes next: to go on, run the "
            "command again with the same input and --skip-lines 1\n"
        )
    assert [message.body for message in stored(path)] == [b"first"]
    assert_sound(path)


def test_misuse(path: Path) -> None:
    """No topic at all, or a property without a value, is refused before anything is touched."""
    assert "give -t TOPIC" in str(call("a\n", path, "--create").exception)
    assert "NAME=VALUE" in str(call("a\n", path, "-t", "t", "--create", "--property", "n").exception)
    assert not path.exists()


# --- lines of JSON --------------------------------------------------------------------------------


def test_json_lines_say_all_of_a_message(path: Path) -> None:
    """Each object says where it goes and what it is; empty lines between them are no objects."""
    whole = {
        "topic": "other", "queue_id": 3, "body_base64": base64.b64encode(b"\xff\0").decode(), "tags": "paid",
        "keys": ["a", "b"], "properties": {"region": "eu"}, "born_timestamp": 1234567890123, "flag": -7,
        "unique_key": "U1",
    }  # fmt: skip
    done = call(objects(whole) + "\n \n" + objects({"body": "é"}), path, "-t", "t", "--json-lines", "--create", *SMALL)
    assert done.return_value == 0
    (message,) = stored(path, "other", 3)
    assert (message.body, message.tags, message.keys, message.unique_key) == (b"\xff\0", "paid", ["a", "b"], "U1")
    assert (message.properties["region"], message.born_timestamp, message.flag) == ("eu", 1234567890123, -7)
    (message,) = stored(path)
    assert message.body == "é".encode()


def test_options_say_what_an_object_leaves_out(path: Path) -> None:
    """Topic, queue, keys, tag and properties come from the options where the object has none."""
    options = ("-t", "t", "-q", 1, "--key", "k", "--tags", "x", "--property", "p=1", "--json-lines", "--create", *SMALL)
    assert call(objects({"body": "a"}, {"body": "b", "tags": "y", "keys": "z"}), path, *options).return_value == 0
    first, second = stored(path, "t", 1)
    assert (first.keys, first.tags, first.properties["p"]) == (["k"], "x", "1")
    assert (second.keys, second.tags) == (["z"], "y")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("{", "not JSON: "),
        ("[1]", "a JSON object is needed"),
        ('{"body": "a", "tag": "x"}', "no field 'tag'; tags is one"),
        ('{"tags": "x"}', "give either body (text) or body_base64"),
        ('{"body": "a", "body_base64": ""}', "give either body (text) or body_base64"),
        ('{"body": 5}', "body must be text, not 5"),
        ('{"body": "a", "queue_id": true}', "queue_id must be a whole number"),
        ('{"body": "a", "queue_id": -1}', "MESSAGE_ILLEGAL"),
        ('{"body": "a", "flag": 2147483648}', "flag must be a whole number"),
        ('{"body": "a", "keys": [1]}', "keys must be a text or a list of texts"),
        ('{"body": "a", "keys": ["a b"]}', "MESSAGE_ILLEGAL: key 'a b'"),
        ('{"body": "a", "properties": {"n": 1}}', "properties must be an object of texts"),
        ('{"body_base64": "%"}', "body_base64: "),
        ('{"body": "\\ud800"}', "body: half of a character"),
        ('{"body": "a", "topic": "../x"}', "topic '../x': RocketMQ refuses this name"),
        ('{"body": "a", "topic": "my topic"}', "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("[" * 100_000, "JSON that is nested"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(path: Path, line: str, shown: str) -> None:
    """A line that is no message ends the command with its number; lines before it are stored, later ones are not."""
    text = objects({"body": "first"}) + line + "\n" + objects({"body": "after"})
    done = call(text, path, "-t", "t", "--json-lines", "--create", *SMALL)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("line 2: ")
    assert shown in str(done.exception)
    assert [message.body for message in stored(path)] == [b"first"]


def test_no_topic_in_a_line(path: Path) -> None:
    """Without -t each object must name its topic."""
    done = call(objects({"body": "a"}), path, "--json-lines", "--create", *SMALL)
    assert "line 1: no topic" in str(done.exception)


# --- reading lines --------------------------------------------------------------------------------


def test_lines_come_as_soon_as_they_are_whole() -> None:
    """Lines of a pipe come out as soon as they are whole; a line over several reads comes whole."""

    class Pipe:
        def __init__(self) -> None:
            self.pieces = [b"a\nb", b"c", b"\n\nd", b""]

        def read1(self, _: int) -> bytes:
            return self.pieces.pop(0)

    pipe: Any = Pipe()
    assert list(lines_of(pipe.read1)) == [[(1, b"a")], [(2, b"bc"), (3, b"")], [(4, b"d")]]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that has no line ends is refused before it fills the memory."""
    monkeypatch.setattr(put_lines, "_LINE_MAX", 1000)
    with Path("/dev/zero").open("rb") as zeros, pytest.raises(ConfigError, match="line 1: over 1000 bytes"):
        list(lines_of(zeros.read))


# --- beside others, and on damaged queues ---------------------------------------------------------


def test_beside_a_follower(path: Path) -> None:
    """While a process follows the store the indexes are left to it, and a put that stored its lines ends with 0."""
    assert call("one\n", path, "-t", "t", "--create", *SMALL).return_value == 0
    with locks.follower_lock(path / "reput" / own.FOLLOWER_NAME, ""):
        done = call("two\n", path, "-t", "t", *SMALL)
    assert done.return_value == 0
    assert [message.body for message in stored(path)] == [b"one", b"two"]
    assert call("", path, "-t", "t", *SMALL).return_value == 0
    assert_sound(path)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "queue"),
    [("basic", f"{paths.CONSUME_QUEUE}/orders/0"), ("batch", f"{paths.BATCH_CONSUME_QUEUE}/batches/0")],
)
def test_queue_files_of_a_wrong_length(name: str, queue: str, tmp_path: Path) -> None:
    """A queue with a cut file takes no message: the number would be one that another message has."""
    store = golden.unpack(name, tmp_path)
    last = max((store / queue).iterdir())
    os.truncate(last, last.stat().st_size // 2)
    before = [data for _, data in golden.log_files(store)]
    done = call("x\n", store, "-t", "orders")
    assert isinstance(done.exception, DamagedStoreError)
    assert done.exception.exit_code == 1
    assert str(last) in str(done.exception)
    assert "reput rebuild --only queue" in str(done.exception)
    assert [data for _, data in golden.log_files(store)] == before
    assert not (store / paths.ABORT).exists()


def test_the_first_line_is_refused(path: Path) -> None:
    """An error at the first line says that nothing was stored."""
    shown = str(call(b"x" * 5_000_000, path, "-t", "t", "--create", *SMALL).exception)
    assert "line 1: MESSAGE_ILLEGAL" in shown
    assert shown.endswith("Nothing was stored")
    shown = str(call("none\n", path, "--json-lines", *SMALL).exception)
    assert shown.endswith("Nothing was stored")


def test_a_store_without_keys_lacks_no_index(path: Path) -> None:
    """Messages without keys have no index items: `info` does not ask for a rebuild of them."""
    assert call("one\n", path, "-t", "t", "--create", *SMALL).return_value == 0
    assert reput.info(path).out_of_date == []


def test_what_cannot_be_said_with_options(path: Path) -> None:
    """Delayed messages are refused by name, as Spark's sink does, and a key of two words names --key: no store yet."""
    for words in (["--property", "DELAY=3"], ["--json-lines", "--property", "DELAY=3"]):
        error = call("x\n", path, "-t", "t", "--create", *words).exception
        assert isinstance(error, ConfigError)
        assert "DELAY=3: delayed messages" in str(error)
    assert "give --key again" in str(call("x\n", path, "-t", "t", "--create", "--key", "a b").exception)
    assert not path.exists()
    text = objects({"topic": "t", "body": "good"}, {"topic": "t", "body": "x", "properties": {"DELAY": "1"}})
    done = call(text, path, "--json-lines", "--create", *SMALL)
    assert isinstance(done.exception, ConfigError)
    assert "line 2: delayed messages" in str(done.exception)
    assert [one.body for one in stored(path)] == [b"good"]
