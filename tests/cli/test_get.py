"""`reput get` as people and programs call it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedLogError, DamagedStoreError, NotAStoreError
from support import golden, stores

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
    store = reput.MessageStore.open(tmp_path / "store", SMALL)
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
    """-o takes a number, earliest, latest, or counts from the end; -c bounds, and 0 is none."""
    queue = (path, "-t", "t", "-q", 0)
    assert bodies(*queue, "-o", 3) == bodies(*queue, "-o", -2) == ["a3", "a4"]
    assert bodies(*queue, "-o", "earliest", "-c", 1) == bodies(*queue, "-o", -99, "-c", 1) == ["a0"]
    assert bodies(*queue, "-o", "latest") == bodies(*queue, "-c", 0) == []
    assert call(*queue, "-o", "x").exception is not None


def test_json_has_all_of_a_message(path: Path) -> None:
    """A JSON object a line, with the places, the tags, and the body with its encoding."""
    told: list[dict[str, Any]] = [json.loads(line) for line in bodies(path, "-t", "t", "-q", 0, "--json")]
    assert [value["queue_offset"] for value in told] == [0, 1, 2, 3, 4]
    assert [value["body_encoding"] for value in told] == ["text", "text", "base64", "text", "text"]
    assert told[1]["body"] == "two\nlines"
    assert told[3]["tags"] == "even"


def test_long_has_the_places_in_front(path: Path) -> None:
    """-l shows what `dump log` shows, with the whole body."""
    (line,) = bodies(path, "-t", "t", "-q", 0, "-o", 4, "-l")
    offset, _, queue, queue_offset, _, tag, _, body = line.split("\t")
    assert (queue, queue_offset, tag, body) == ("t/0", "4", "odd", "text:a4")
    assert int(offset) > 0


def test_filter(path: Path) -> None:
    """--filter shows messages with one of the tags; where none matches it says so."""
    queue = (path, "-t", "t", "-q", 0)
    assert bodies(*queue, "--filter", "even") == ["base64://4=", "a3"]
    assert len(bodies(*queue, "--filter", "even || odd")) == 5
    none = call(*queue, "--filter", "never")
    assert (none.stdout, none.return_value) == ("", 0)
    assert "no message from 0 on matches; the queue holds 0 to 4" in none.stderr


def test_where_no_message_is(path: Path) -> None:
    """An offset outside the queue is told with RocketMQ's status and the span."""
    for offset, status in ((5, "OFFSET_OVERFLOW_ONE"), (99, "OFFSET_OVERFLOW_BADLY")):
        done = call(path, "-t", "t", "-q", 0, "-o", offset)
        assert (done.stdout, done.return_value) == ("", 0)
        assert f"{status} at {offset}: the queue holds 0 to 4" in done.stderr


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
    """An answer that the default count cut off says so, and where to go on; -c takes what it is told."""
    store = golden.shared("basic")
    done = call(store, "-t", "payments", "-q", 3)
    assert len(done.stdout.splitlines()) == 32
    assert "the queue goes on to 175: -o 32 goes on there" in done.stderr
    whole = call(store, "-t", "payments", "-q", 3, "-c", 1000)
    assert (len(whole.stdout.splitlines()), whole.stderr) == (176, "")


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
        with reput.MessageStore.open(path, SMALL) as store:
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
    """--sql shows what matches; a filter that is none, and one beside --filter, are refused."""
    with reput.MessageStore.open(tmp_path / "store", SMALL) as store:
        for n in range(5):
            store.put_message(reput.Message("t", b"%d" % n, properties={"amount": str(n)}))
    assert bodies(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount > 1 AND amount <> 3") == ["2", "4"]
    refused = call(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount >")
    assert isinstance(refused.exception, ConfigError)
    assert "its end" in str(refused.exception)
    both = call(tmp_path / "store", "-t", "t", "-q", 0, "--sql", "amount > 1", "--filter", "x")
    assert "give one of them" in str(both.exception)


@pytest.mark.golden
def test_a_record_that_was_damaged_behind_its_index(tmp_path: Path) -> None:
    """The messages in front are shown; then the damage is told with its place, and those behind can be read."""
    with reput.MessageStore.open(tmp_path / "store", SMALL) as store:
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
    """Where all files have another length than the setting says, the setting is named, and exit code 2."""
    store = golden.shared("basic")
    error = call(store, "-t", "orders", "-q", 0, "--set", "mappedFileSizeConsumeQueue=7000").exception
    assert isinstance(error, ConfigError)
    assert "mappedFileSizeConsumeQueue=7000" in str(error)
    assert f"have {golden.QUEUE_FILE_SIZE} bytes" in str(error)
