"""Slips of a first-time user at the command line: each ends with words that help, and with exit code 2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import reput
from reput.broker.state.attributes import MESSAGE_TYPES
from reput.cli.main import run
from reput.errors import NotAStoreError
from support.checked import assert_sound
from support.opened import CONFIG
from support.processes import writing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = ("orders", "orders-1", "orders-2", "orders-10", "orders-20", "my topic")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A store with a message in each of a few topics; sound afterwards."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as opened:
        for topic in TOPICS:
            assert opened.put_message(reput.Message(topic, b"x")).status.is_stored
    yield tmp_path / "s"
    assert_sound(tmp_path / "s", CONFIG)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the text of a command that ends with exit code 2."""
    assert run([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("topic", "near"),
    [("order", "Near it: orders, orders-1 to orders-20 (4 names)"), ("mytopic", "Near it: 'my topic'")],
)
def test_each_verb_names_the_topics_near_an_unknown_one(
    topic: str, near: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`info` and `rebuild` name near topics as `get` does, a series in short, blanks in quotes."""
    assert f"{store}: no topic {topic}. {near}" in refused(capsys, "info", store, "-t", topic)
    assert f"{store}: no topic {topic}. {near}" in refused(capsys, "get", store, "-t", topic)
    text = refused(capsys, "rebuild", store, "-t", topic, "--no-spark")
    assert (
        f"--topic {topic}: neither the log nor {store / 'consumequeue'} has such a topic. Nothing was changed" in text
    )
    assert near in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("get STORE -t orders -c abc", "'abc': give a whole number of at least 0"),
        ("get STORE -t orders -c -1", "'-1': give a whole number of at least 0"),
        ("serve STORE --port 99999", "'99999': give a whole number from 0 to 65535"),
        ("serve STORE --topic :3", "':3': give NAME, NAME:QUEUES or NAME:QUEUES:TYPE, such as orders:8:FIFO"),
        ("serve STORE --topic a:", "'a:': give NAME, NAME:QUEUES or NAME:QUEUES:TYPE, such as orders:8:FIFO"),
        ("serve STORE --topic a:0", "topic a: 0 queues; give 1 to 1024"),
        (
            "serve STORE --topic a:99999999999",
            "'a:99999999999': give NAME, NAME:QUEUES or NAME:QUEUES:TYPE, such as orders:8:FIFO",
        ),
        ("serve STORE -t a -t a:8", "topic a is named twice"),
        ("serve STORE --host 192.0.2.1", "other machines may reach that address, and anyone there could"),
        ("serve STORE --port 0 --host 192.0.2.1 --allow-remote", "Give an address of this machine"),
        (
            "serve STORE --set foo=1",
            "no setting of this name is used here; the page Configuration of reput's documentation lists them",
        ),
        ("serve STORE/commitlog/00000000000000000000 --port 0", "not a folder. Give a store's root"),
        ("serve STORE/consumequeue --port 0", "A new store needs a folder that is empty or not there yet"),
        (
            "rebuild STORE --only queue --index-tags on",
            "--index-tags is about the IndexFiles, and --only queue builds none: give one of them",
        ),
        ("dump index STORE -k x", "Usage: reput dump index [OPTIONS] STORE\nerror: -k and -t go together"),
        ("put STORE -t orders -q 99999999999", "'99999999999': give a whole number from 0 to 2147483647"),
        ("rebuild STORE --split-mb x", "'x': give a number of MiB from 0.001 to 1024"),
        ("rebuild STORE --split-mb 4096", "'4096': give a number of MiB from 0.001 to 1024"),
        ("dump log STORE --physical-offset x", "'x': give a whole number; a negative one counts from the end"),
        ("dump queue STORE -t orders -o x", "'x': give a whole number; a negative one counts from the end"),
        ("dump index STORE --item x", "'x': give a whole number; a negative one counts from the end"),
        ("lite STORE -t order", "no topic order. Near it: orders"),
        ("lite STORE -t orders", "topic orders is not of type LITE. No topic of this store is"),
    ],
)
def test_a_slip_ends_with_what_to_give(words: str, says: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong value is refused with what to give instead, and nothing is made or served."""
    assert says in refused(capsys, *words.replace("STORE", str(store)).split())


def test_the_help_names_the_types_that_a_topic_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    """`reput serve --help` lists each type that `--topic` takes, as the refusal of another one does."""
    assert run(["serve", "--help"]) == 0
    words = set(re.findall("[A-Z]+", capsys.readouterr().out.partition("--topic")[2].partition("May be")[0]))
    assert words >= MESSAGE_TYPES


def test_a_missing_path_advises_a_reader_no_create(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that only reads a missing store asks for a store's root, and does not suggest --create."""
    (tmp_path / "empty").mkdir()
    for name in ("nope", "empty"):
        assert "create" not in refused(capsys, "get", tmp_path / name, "-t", "t")
        with pytest.raises(NotAStoreError, match=name) as error:
            reput.MessageStore.open(tmp_path / name, read_only=True)
        assert "create" not in str(error.value)
        with pytest.raises(NotAStoreError, match=r"MessageStore\.open\(path, create=True\) makes a new store there"):
            reput.MessageStore.open(tmp_path / name)


def test_a_store_in_use_names_its_holder(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that cannot write says which kind of process has the store, and its id."""
    with writing(store) as writer:
        who = f"a reput program that puts messages, process {writer}, is at work on this store. Stop it, or wait"
        for verb in (("rebuild", "--no-spark"), ("rebuild", "--dry-run"), ("delete", "-t", "orders")):
            assert f"{store / 'reput' / 'lock'}: {who}" in refused(capsys, verb[0], store, *verb[1:])


def test_progress_names_an_offset_past_the_end(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An offset past a queue's end is taken, as a broker takes it: `progress` names it, and says where pulls go on."""
    with reput.MessageStore.open(store, CONFIG) as opened:
        assert opened.commit_offset("billing", "orders", 0, 99)
        assert opened.get_message("orders", 0, 99).next_offset == 1
    assert run(["progress", str(store), "-g", "billing", "-t", "orders"]) == 0
    reported = capsys.readouterr().err
    assert "billing, orders/0: offset 99 is past the queue's end, 1, where its next pull goes on" in reported
    assert "from 0 to 1" in refused(capsys, "progress", store, "-g", "b", "-t", "orders", "-q", 0, "--commit", 99)


@pytest.mark.parametrize("verb", ["info", "rebuild", "convert", "delete", "diff"])
def test_an_empty_path_is_not_the_current_folder(
    verb: str, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable of a shell that is not set must not name the store in which the shell is."""
    monkeypatch.chdir(store)
    assert "the path is empty. Give the folder of a store" in refused(capsys, verb, "")


def test_an_export_into_no_folder(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty folder of an export is not the current one, either."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert "folder: the path is empty. Give a folder" in refused(capsys, "export", store, "--folder", "")
    assert [path.name for path in tmp_path.iterdir() if path != store] == ["here"]


def test_the_last_of_more_records_than_a_machine_can_count(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All records are shown if more are asked for than there are, however many; 2^63 was a traceback."""
    assert run(["dump", "log", str(store), "--physical-offset", str(-(1 << 64)), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TOPICS)
