"""`reput get` as people and programs call it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedLogError, DamagedStoreError, NotAStoreError
from support import golden, stores
from support.inner import topics_json
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16)


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["get", *map(str, arguments)], standalone_mode=False)


def bodies(*arguments: object) -> list[str]:
    """The text that a call shows, line by line."""
    return call(*arguments).stdout.splitlines()


def put(store: reput.MessageStore, *texts: bytes, tags: str | None = None) -> None:
    """Put messages of topic `t`, queue 0."""
    for text in texts:
        assert store.put_message(reput.Message("t", text, tags=tags)).status is reput.PutStatus.PUT_OK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with five messages in queue 0 of topic `t`; no durable index has them yet."""
    store = reput.MessageStore.open(tmp_path / "store", SMALL, create=True)
    put(store, b"a0", b"two\nlines", tags="odd")
    put(store, b"\xff\xfe", b"a3", tags="even")
    put(store, b"a4", tags="odd")
    store.close(reput=False)
    return tmp_path / "store"


def test_bodies_come_in_order_a_line_each(path: Path) -> None:
    """Text is a line a body; what is no UTF-8 comes as base64 and says so; nothing in the store changes."""
    before = stores.digest(path)
    assert bodies(path, "-t", "t", "-q", 0) == ["a0", "two\\nlines", "base64://4=", "a3", "a4"]
    assert stores.digest(path) == before


def test_offset_and_count_choose(path: Path) -> None:
    """-o takes a number, earliest, latest, or counts from the end; -c bounds, and 0 gives no message."""
    queue = (path, "-t", "t", "-q", 0)
    assert bodies(*queue, "-o", 3) == bodies(*queue, "-o", -2) == ["a3", "a4"]
    assert bodies(*queue, "-o", "earliest", "-c", 1) == bodies(*queue, "-o", -99, "-c", 1) == ["a0"]
    assert bodies(*queue, "-o", "latest") == bodies(*queue, "-c", 0) == []
    assert call(*queue, "-o", "x").exception is not None


def test_json_has_all_of_a_message(path: Path) -> None:
    """A JSON object a line, with the places, the tags, and the body with its encoding."""
    reported: list[dict[str, Any]] = [json.loads(line) for line in bodies(path, "-t", "t", "-q", 0, "--json")]
    assert [value["queue_offset"] for value in reported] == [0, 1, 2, 3, 4]
    assert [value["body_encoding"] for value in reported] == ["text", "text", "base64", "text", "text"]
    assert reported[1]["body"] == "two\nlines"
    assert reported[3]["tags"] == "even"


def test_long_has_the_places_in_front(path: Path) -> None:
    """-l shows what `dump log` shows, with the whole body."""
    (line,) = bodies(path, "-t", "t", "-q", 0, "-o", 4, "-l")
    offset, _, queue, queue_offset, _, tag, _, body = line.split("\t")
    assert (queue, queue_offset, tag, body) == ("t/0", "4", "odd", "text:a4")
    assert int(offset) > 0


def test_filter(path: Path) -> None:
    """--tags shows messages with one of the tags; where none matches it says so."""
    queue = (path, "-t", "t", "-q", 0)
    assert bodies(*queue, "--tags", "even") == ["base64://4=", "a3"]
    assert len(bodies(*queue, "--tags", "even || odd")) == 5
    none = call(*queue, "--tags", "never")
    assert (none.stdout, none.return_value) == ("", 0)
    assert "no message from 0 on matches; the queue holds 0 to 4" in none.stderr


def test_where_no_message_is(path: Path) -> None:
    """An offset outside the queue is explained in words, with RocketMQ's status and the span."""
    for offset, words in (
        (5, "offset 5 is the queue's end, and no message has it yet (OFFSET_OVERFLOW_ONE)"),
        (99, "offset 99 is past the queue's end (OFFSET_OVERFLOW_BADLY)"),
    ):
        done = call(path, "-t", "t", "-q", 0, "-o", offset)
        assert (done.stdout, done.return_value) == ("", 0)
        assert f"note: {words}; the queue holds 0 to 4\n" in done.stderr


def test_a_topic_without_messages_is_empty_and_not_unknown(path: Path) -> None:
    """A topic that only the broker's configuration has is no error: a note says that it is empty, as for its queues."""
    topics_json(path, {"fresh": {}})
    for verb in (("get",), ("get", "-q", "0"), ("offset",), ("query", "--key", "k"), ("info",)):
        done = CliRunner().invoke(cli, [verb[0], str(path), "-t", "fresh", *verb[1:]], standalone_mode=False)
        assert (done.stdout if verb != ("info",) else "", done.return_value) == ("", 0), done.exception
        assert "note: " in done.stderr
    assert "note: topic fresh is empty: the store has no queue of it\n" in call(path, "-t", "fresh").stderr
    both = call(path, "-t", "fresh", "-t", "t")
    assert (both.stdout.splitlines()[0], len(both.stdout.splitlines())) == ("a0", 5)
    assert "no topic fresher. Near it: fresh" in str(call(path, "-t", "fresher").exception)
    assert "no queue 7" in str(call(path, "-t", "t", "-q", 7).exception)


def test_follow_waits_for_the_first_message_of_a_topic(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """-f of a topic that is in topics.json and still empty waits, and shows what comes; so for a queue of it."""
    topics_json(path, {"fresh": {}})

    def put_one(_: float) -> None:
        with reput.MessageStore.open(path, SMALL) as store:
            assert store.put_message(reput.Message("fresh", b"first")).status.is_stored

    monkeypatch.setattr("reput.cli.get.read._LOOK_FOR_QUEUES_S", 0)
    # Not `time.sleep` itself: threads of Spark's gateway call that, too.
    monkeypatch.setattr("reput.cli.get.read.time", SimpleNamespace(sleep=put_one, monotonic=time.monotonic))
    done = call(path, "-t", "fresh", "-f", "-c", 1)
    assert (done.stdout, done.return_value) == ("first\n", 0), done.exception
    assert "note: topic fresh is empty: the store has no queue of it, waiting for one\n" in done.stderr


def test_unknown_names_are_told_with_what_is_near(path: Path) -> None:
    """An unknown topic or queue is an error that says what there is; so is a folder without a store."""
    with pytest.raises(ConfigError, match=r"no topic payment\. Near it: payments"):
        CliRunner().invoke(
            cli,
            ["get", str(golden.shared("basic")), "-t", "payment", "-q", "0"],
            standalone_mode=False,
            catch_exceptions=False,
        )
    assert isinstance(call(path, "-t", "t", "-q", 7).exception, ConfigError)
    assert "no queue 7. There are: 0" in str(call(path, "-t", "t", "-q", 7).exception)
    assert isinstance(call(path / "none", "-t", "t", "-q", 0).exception, NotAStoreError)


@pytest.mark.golden
def test_what_the_default_count_leaves_is_said(tmp_path: Path) -> None:
    """An answer that the default count cut off says so, and where to continue; -c sets the count."""
    store, entries = golden.shared("basic"), golden.facts("basic").entries("payments", 3)
    done = call(store, "-t", "payments", "-q", 3)
    assert len(done.stdout.splitlines()) == 32
    assert f"the queue goes on to {entries - 1}: -o 32 goes on there" in done.stderr
    whole = call(store, "-t", "payments", "-q", 3, "-c", 1000)
    assert (len(whole.stdout.splitlines()), whole.stderr) == (entries, "")


# --- -f -------------------------------------------------------------------------------------------


@pytest.fixture
def follower(path: Path) -> Iterator[subprocess.Popen[str]]:
    """`reput get -f` from offset 4 on, in another process."""
    command = [sys.executable, "-m", "reput", "get", str(path), "-t", "t", "-q", "0", "-o", "4", "-f"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_follow_shows_what_a_writer_puts_later(path: Path, follower: subprocess.Popen[str]) -> None:
    """-f begun without a writer shows what one puts afterwards, and the next one too; Ctrl-C ends it with 130."""
    assert follower.stdout is not None
    assert follower.stdout.readline() == "a4\n"
    for body in (b"new", b"newer"):
        with reput.MessageStore.open(path, SMALL, create=True) as store:
            put(store, body)
            assert follower.stdout.readline() == f"{body.decode()}\n"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(30) == 130
    assert follower.stderr is not None
    assert "Traceback" not in follower.stderr.read()


def test_sigterm_ends_following_well(follower: subprocess.Popen[str]) -> None:
    """SIGTERM is the good end of -f, as it is of `reput follow`: exit code 0, no stack trace."""
    assert follower.stdout is not None
    assert follower.stdout.readline() == "a4\n"
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(30) == 0
    assert follower.stderr is not None
    assert "Traceback" not in follower.stderr.read()


def test_sql(tmp_path: Path) -> None:
    """--sql shows what matches; text that is no filter, and a filter beside --filter, are refused."""
    with reput.MessageStore.open(tmp_path / "store", SMALL, create=True) as store:
        for n in range(5):
            store.put_message(reput.Message("t", b"%d" % n, properties={"amount": str(n)}))
    assert bodies(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount > 1 AND amount <> 3") == ["2", "4"]
    refused = call(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount >")
    assert isinstance(refused.exception, ConfigError)
    assert "its end" in str(refused.exception)
    both = call(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount > 1", "--tags", "x")
    assert "give one of them" in str(both.exception)


@pytest.mark.golden
def test_a_record_that_was_damaged_behind_its_index(tmp_path: Path) -> None:
    """The messages before damage are shown; the damage is reported with its place, and those after it can be read."""
    with reput.MessageStore.open(tmp_path / "store", SMALL, create=True) as store:
        put(store, b"a0", b"a1", b"a2")
        where = store.get_message("t", 0, 1, 1).physical_offsets.tolist()[0]
    with (tmp_path / "store" / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(where)
        file.write(bytes(8))
    done = call(tmp_path / "store", "-t", "t", "-q", 0)
    assert done.stdout.splitlines() == ["a0"]
    assert isinstance(done.exception, DamagedLogError)
    assert re.search(rf"{0:020} at {where} \(log offset {where}\).*reput check.*--salvage", str(done.exception))
    assert bodies(tmp_path / "store", "-t", "t", "-q", 0, "-o", 2) == ["a2"]


def test_a_queue_file_that_was_cut_is_damage(tmp_path: Path) -> None:
    """Its messages cannot be shown: exit code 1, with the file and what to do."""
    store = golden.unpack("basic", tmp_path)
    file = min((store / "consumequeue" / "orders" / "0").iterdir())
    os.truncate(file, 3000)
    error = call(store, "-t", "orders", "-q", 0).exception
    assert isinstance(error, DamagedStoreError)
    assert f"{file}: has 3000 bytes" in str(error)
    assert "reput rebuild" in str(error)


@pytest.mark.golden
def test_a_wrong_size_of_queue_files_is_no_damage() -> None:
    """Queue files whose lengths all differ from the setting end the command with the setting's name and exit code 2."""
    store = golden.shared("basic")
    error = call(store, "-t", "orders", "-q", 0, "--set", "mappedFileSizeConsumeQueue=7000").exception
    assert isinstance(error, ConfigError)
    assert "mappedFileSizeConsumeQueue=7000" in str(error)
    assert f"have {golden.QUEUE_FILE_SIZE} bytes" in str(error)


# --- several queues, times and forms ---------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A store with 40 messages in three queues of `t` and one of `u`, a message a second, the first half indexed."""
    with reput.MessageStore.open(tmp_path / "store", SMALL, create=True) as store:
        for n in range(40):
            topic, queue_id = ("u", 0) if n % 4 == 3 else ("t", n % 4)
            assert store.put_message(reput.Message(topic, b"m%d" % n, keys=f"k{n}", tags="abc"[n % 3]), queue_id)
            if n == 20:
                store.reput(spark=False)
    return tmp_path / "store"


def numbers(*arguments: object) -> list[int]:
    """The numbers in the bodies that a call shows."""
    done = call(*arguments)
    assert done.exception is None, done.exception
    return [int(line[1:]) for line in done.stdout.splitlines()]


def test_all_queues_come_in_the_order_of_storing(mixed: Path) -> None:
    """Without -q all queues of the topics come merged, each message once; -q chooses one of each topic."""
    assert numbers(mixed, "-t", "t") == [n for n in range(40) if n % 4 != 3]
    assert numbers(mixed, "-t", "t", "-t", "u", "-t", "t", "-c", 100) == list(range(40))
    assert numbers(mixed, "-t", "t", "-t", "u", "-q", 0, "-c", 100) == [n for n in range(40) if n % 4 in {0, 3}]
    assert numbers(mixed, "-t", "t", "--tags", "b") == [n for n in range(40) if n % 4 != 3 and n % 3 == 1]
    some = call(mixed, "-t", "t", "-t", "u")
    assert len(some.stdout.splitlines()) == 32
    assert "-c takes more" in some.stderr


def test_the_last_of_all_queues(mixed: Path) -> None:
    """A negative offset counts the messages of all queues together; names of both ends are kcat's, too."""
    assert numbers(mixed, "-t", "t", "-t", "u", "-o", -10) == list(range(30, 40))
    assert numbers(mixed, "-t", "u", "-o", -2) == [35, 39]
    assert numbers(mixed, "-t", "t", "-t", "u", "-o", -1000, "-c", 100) == list(range(40))
    assert numbers(mixed, "-t", "u", "-o", "beginning", "-c", 1) == [3]
    none = call(mixed, "-t", "t", "-t", "u", "-o", "end")
    assert none.stdout == ""
    assert "none of 4 queues" in none.stderr
    assert numbers(mixed, "-t", "t", "-o", 8) == [n for n in range(32, 40) if n % 4 != 3]


def test_times_bound_what_comes(tmp_path: Path) -> None:
    """--since and --until take times as `reput offset --time` does, both of them inclusive."""
    log = LogBuilder(file_size=1 << 16, tick_ms=1000)
    for n in range(40):
        log.message("t", queue_id=n % 4, body=b"m%d" % n)
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    (first, *_), (*_, last) = [[placed.record.store_timestamp for placed in log.placed]] * 2
    assert numbers(store, "-t", "t", "--since", first + 5000, "--until", first + 9000) == [5, 6, 7, 8, 9]
    assert numbers(store, "-t", "t", "--since", first + 4001, "--until", first + 5999) == [5]
    assert numbers(store, "-t", "t", "--since", last) == [39]
    assert numbers(store, "-t", "t", "-o", -3, "--until", first + 38000) == [37, 38]
    assert numbers(store, "-t", "t", "--until", first - 1) == []
    assert numbers(store, "-t", "t", "--since", "-1h") == []
    iso = datetime.fromtimestamp(first / 1000 + 38, UTC).isoformat()
    assert numbers(store, "-t", "t", "-q", 3, "--since", iso) == [39]


def test_formats_are_kcats(mixed: Path) -> None:
    """--format has kcat's letters, and writes bytes as they are stored."""
    line = "%t/%p %o %k|%K|%s|%S %% %h\\n\\x41\\0"
    done = call(mixed, "-t", "u", "-c", 1, "--format", line)
    assert done.stdout_bytes == b"u/0 0 k3|2|m3|2 % TAGS=a,KEYS=k3\nA\0"
    reported = [json.loads(one)["store_timestamp"] for one in bodies(mixed, "-t", "u", "--json")]
    assert numbers(mixed, "-t", "u", "--format", "m%T\\n") == reported


def test_raw_bodies(path: Path) -> None:
    """--raw writes any bytes as they are, with the delimiter that -D names."""
    queue = (path, "-t", "t")
    assert call(*queue, "--raw").stdout_bytes == b"a0\ntwo\nlines\n\xff\xfe\na3\na4\n"
    assert call(*queue, "--raw", "-D", "\\0;").stdout_bytes == b"a0\0;two\nlines\0;\xff\xfe\0;a3\0;a4\0;"
    assert call(*queue, "--raw", "-D", "", "-o", 2, "-c", 1).stdout_bytes == b"\xff\xfe"
    assert call(*queue, "--format", "%s", "-o", 2, "-c", 1).stdout_bytes == b"\xff\xfe"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", 1, "--since", "now"], "give one of them"),
        (["-f", "--until", "now"], "give one of them"),
        (["--raw", "--json"], "give one of them"),
        (["-D", ";"], "add --raw"),
        (["--format", "%x"], "no %x; there are %t topic"),
        (["--format", "%"], "no %; there are"),
        (["--format", "\\q"], "no \\q"),
        (["--since", "-1y"], "-1h"),
        (["-o", "first"], "beginning"),
    ],
    ids=repr,
)
def test_misuse(arguments: list[object], says: str, path: Path) -> None:
    """Options that contradict one another, and letters that mean nothing, are refused with what there is."""
    assert says in str(call(path, "-t", "t", *arguments).exception)


def test_follow_takes_in_all_queues_and_new_ones(mixed: Path) -> None:
    """-f without -q shows what comes into any queue, also into one that was not there."""
    command = [sys.executable, "-m", "reput", "get", str(mixed), "-t", "t", "-o", "-1", "-f", "-c", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "m38\n"
        with reput.MessageStore.open(mixed, SMALL, create=True) as store:
            for queue_id in (2, 0, 7):
                assert store.put_message(reput.Message("t", b"new%d" % queue_id), queue_id).status.is_stored
                assert process.stdout.readline() == f"new{queue_id}\n"
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("command", "further"), [("get", "-t t"), ("query", "-t t --key k"), ("dump log", "")], ids=["get", "query", "dump"]
)
def test_times_that_were_exchanged_gave_no_message_and_no_error(command: str, further: str, tmp_path: Path) -> None:
    """A begin after the end is a mistake: a usage error that says what to do."""
    log = LogBuilder(2048)
    log.message("t")
    store = stores.with_log(tmp_path, log)
    words = [*command.split(), str(store), *further.split(), "--since", "-1h", "--until", "-2h"]
    with pytest.raises(click.UsageError, match=r"--since is later than --until.*exchange them"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
