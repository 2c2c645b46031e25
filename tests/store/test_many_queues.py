"""A question about one queue looks at that queue, however many there are, and each answer is right all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.cli import main
from reput.files import fs, names
from reput.log.encode.message import PutStatus
from support import stores
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG = replace(stores.SMALL, max_hash_slot_num=1000, max_index_num=4000)
TOPICS = 300
A_FEW = 40
"""File calls below the queues' folders that a question about one of them may cost."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of many topics, two messages each, closed."""
    path = tmp_path_factory.mktemp("many") / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        for body in (b"first", b"second"):
            store.put_messages([reput.Message(f"t{number:03d}", body, keys="k") for number in range(TOPICS)])
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return stores.copy(made, tmp_path / "store")


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths below queues' folders that were listed or read, a call each."""
    seen: list[str] = []

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Path | str, *arguments: Any, **named: Any) -> Any:
            if "/consumequeue/" in str(path):
                seen.append(str(path))
            return call(path, *arguments, **named)

        return called

    for name in ("list_dir", "read_bytes", "mapped", "end_of_data"):
        monkeypatch.setattr(fs, name, noting(getattr(fs, name)))
    for name in ("sub_folders", "is_own_dir"):
        monkeypatch.setattr(names, name, noting(getattr(names, name)))
    return seen


def opened(path: Path, **named: Any) -> reput.MessageStore:
    """The store with settings that its files need not show."""
    return reput.MessageStore.open(path, CONFIG, **named)


@pytest.mark.parametrize("read_only", [True, False])
def test_one_queue_is_looked_at(store: Path, looked_at: list[str], read_only: bool) -> None:
    """Opening a store of many topics read each queue's end: now a question reads the queue that it is about."""
    with opened(store, read_only=read_only) as one:
        looked_at.clear()
        assert [message.body for message in one.get_message("t123", 0, 0)] == [b"first", b"second"]
        assert one.queues("t124") == [("t124", 0, 0, 2)]
        assert one.max_offset("t125", 0) == 2
        assert one.max_offset("nothing", 0) == 0
        assert len(one.topics()) == TOPICS
        if not read_only:
            put = one.put_message(reput.Message("t126", b"third"))
            assert put.queue_offset == 2
        assert {Path(path).relative_to(store / "consumequeue").parts[0] for path in looked_at} <= {
            "t123", "t124", "t125", "t126", "nothing",
        }  # fmt: skip
        assert len(looked_at) < A_FEW
    assert_sound(store, CONFIG)


def test_an_open_to_read_looks_at_samples(store: Path, looked_at: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of queue files shows their settings; the number of calls does not grow with the topics."""
    monkeypatch.setattr("reput.store.disk.settings.QUEUES_ASKED", 5)
    monkeypatch.setattr("reput.store.disk.queue_refusals.QUEUES_ASKED", 5)
    with reput.MessageStore.open(store, read_only=True):
        assert len(looked_at) < A_FEW


def test_a_put_and_a_close_change_one_queue(store: Path, looked_at: list[str]) -> None:
    """To put one message and to bring its index up to date costs no look at the other queues."""
    with opened(store) as one:
        looked_at.clear()
        one.put_message(reput.Message("t200", b"third"))
        one.reput(spark=False)
        assert {Path(path).relative_to(store / "consumequeue").parts[0] for path in looked_at} == {"t200"}
        looked_at.clear()
    assert looked_at == []
    with opened(store, read_only=True) as one:
        assert one.queues("t200") == [("t200", 0, 0, 3)]
    assert_sound(store, CONFIG)


def test_numbers_go_on(store: Path) -> None:
    """Each way to put finds the number that a queue goes on with, whatever an earlier opening has put to it."""
    for round_ in range(2):
        with opened(store) as one:
            begin = 2 + 3 * round_
            assert one.put_message(reput.Message("t001", b"")).queue_offset == begin
            many = one.put_messages([reput.Message(f"t{number:03d}", b"") for number in (1, 2, 2)])
            assert many.queue_offsets.tolist() == [begin + 1, 2 + 2 * round_, 3 + 2 * round_]
            assert one.put_message(reput.Message("t001", b"")).queue_offset == begin + 2
    assert_sound(store, CONFIG)


def test_a_damaged_queue_refuses_puts(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue file of a wrong length that the opening has not looked at refuses what is put to it, with its name."""
    path = store / "consumequeue" / "t299" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:-7])
    monkeypatch.setattr("reput.store.disk.refusals.QUEUES_ASKED", TOPICS)
    with pytest.raises(reput.ReputError, match="t299"):
        opened(store)
    monkeypatch.setattr("reput.store.disk.refusals.QUEUES_ASKED", 5)
    with opened(store) as one:
        put = one.put_message(reput.Message("t299", b""))
        assert put.status is PutStatus.MESSAGE_ILLEGAL
        assert str(path) in put.reason
        assert "rebuild" in put.reason
        assert one.put_message(reput.Message("t298", b"")).queue_offset == 2


def test_an_unknown_topic_names_near_ones(
    store: Path, looked_at: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown topic is reported from names alone."""
    monkeypatch.setattr("reput.store.disk.queue_refusals.QUEUES_ASKED", 5)
    settings = ["--set", f"mappedFileSizeConsumeQueue={CONFIG.mapped_file_size_consume_queue}"]
    assert main.run(["get", str(store), "-t", "t1234", "-q", "0", *settings]) == 2
    assert "Near it: t" in capsys.readouterr().err
    assert len(looked_at) < A_FEW


def test_info_reads_no_queue_of_many_topics(
    store: Path, looked_at: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over a number of topics `info` says how many there are, and where the log ends, without a look at the queues."""
    monkeypatch.setattr("reput.cli.info._MOST_TOPICS", TOPICS - 1)
    assert main.run(["info", str(store)]) == 0
    out, err = capsys.readouterr()
    assert f"topics      {TOPICS} with unread queues" in out
    assert "end clean" in out
    assert "out of date" not in err
    assert len(looked_at) < A_FEW
    assert main.run(["info", str(store), "-t", "t007"]) == 0
    out, _ = capsys.readouterr()
    assert "t007\t0\t2\t0\t2\t1" in out
    assert len(looked_at) < A_FEW
    assert main.run(["info", str(store), "-t", "nothing"]) == 2
    assert f"There are: t000 to t{TOPICS - 1} ({TOPICS} names)" in capsys.readouterr().err
    assert main.run(["info", str(store), "-t", "T 007"]) == 2
    assert "no topic 'T 007'. Near it: t007" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--all", "--json"])
def test_info_of_all_topics(
    option: str, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text with --all, and always the JSON, lists every queue, and the sums are right."""
    monkeypatch.setattr("reput.cli.info._MOST_TOPICS", 1)
    assert main.run(["info", str(store), option]) == 0
    out, _ = capsys.readouterr()
    if option == "--all":
        assert f"queues      {TOPICS} in {TOPICS} topics, {2 * TOPICS} entries" in out
    else:
        reported = json.loads(out)
        assert (reported["unread_topics"], reported["queues"], reported["queue_entries"]) == (0, TOPICS, 2 * TOPICS)


def configure(store: Path) -> None:
    """Give the store the topics.json and the committed offsets that a broker would keep."""
    topics = {f"t{number:03d}": {"attributes": {}, "writeQueueNums": 1} for number in range(TOPICS)}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    with opened(store) as one:
        for topic in topics:
            one.commit_offset("billing", topic, 0, 1)


def test_a_reader_decodes_no_offsets_and_topics_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 100,000 topics `get` took 5 s: it decoded offsets that it never used, and topics.json three times."""
    configure(store)
    read: list[str] = []
    read_bytes = fs.read_bytes
    monkeypatch.setattr(
        fs, "read_bytes", lambda path, *arguments: read.append(Path(path).name) or read_bytes(path, *arguments)
    )
    with opened(store, read_only=True) as one:
        assert [message.body for message in one.get_message("t123", 0, 0)] == [b"first", b"second"]
        assert (read.count("topics.json"), read.count("consumerOffset.json")) == (1, 0)
        assert one.query_offset("billing", "t123", 0) == 1
        assert one.query_offset("billing", "t124", 0) == 1
        assert read.count("consumerOffset.json") == 1


def test_progress_of_one_topic_looks_at_its_queues(
    store: Path, looked_at: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag of a group in one topic costs no look at the other topics in which the group has progress."""
    configure(store)
    monkeypatch.setattr("reput.store.disk.queue_refusals.QUEUES_ASKED", 5)
    monkeypatch.setattr("reput.store.disk.settings.QUEUES_ASKED", 5)
    looked_at.clear()
    sizes = ("mappedFileSizeConsumeQueue", CONFIG.mapped_file_size_consume_queue)
    assert main.run(["progress", str(store), "-t", "t123", "--json", "--set", "=".join(map(str, sizes))]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert [(queue["topic"], queue["offset"], queue["lag"]) for queue in group["queues"]] == [("t123", 1, 1)]
    assert len(looked_at) < A_FEW


def test_damaged_offsets_stop_who_asks_for_them(store: Path) -> None:
    """A reader of messages does without a damaged consumerOffset.json; who asks for progress gets the error."""
    (store / "config" / "consumerOffset.json").write_bytes(b"{")
    with opened(store, read_only=True) as one:
        assert len(one.get_message("t123", 0, 0)) == 2
        with pytest.raises(reput.DamagedStoreError, match=r"consumerOffset\.json: damaged"):
            one.query_offset("billing", "t123", 0)
    with pytest.raises(reput.DamagedStoreError, match=r"consumerOffset\.json: damaged"):
        opened(store)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the bytes that each call of `fs.read_bytes` gives."""
    sizes: list[int] = []
    read_bytes = fs.read_bytes

    def counted(*arguments: Any, **named: Any) -> bytes | None:
        data = read_bytes(*arguments, **named)
        sizes.append(len(data or b""))
        return data

    monkeypatch.setattr(fs, "read_bytes", counted)
    return sizes


def test_little_is_read_where_no_message_has_a_tag(tmp_path: Path, bytes_read: list[int]) -> None:
    """To find out whether tags are indexed, opening reads records and not megabytes for each of them."""
    with reput.MessageStore.open(tmp_path, create=True) as store:
        store.put_messages([reput.Message("orders", b"body", keys=f"o-{number}") for number in range(300)])
    bytes_read.clear()
    with reput.MessageStore.open(tmp_path, read_only=True) as store:
        assert len(store.get_message("orders", 0, 0)) == 32
    assert sum(bytes_read) < 1 << 20


def test_check_reads_no_holes_of_queue_files(tmp_path: Path, bytes_read: list[int]) -> None:
    """A queue file of 6 MB with one entry costs `check` one page, not 6 MB."""
    config = reput.StoreConfig(max_hash_slot_num=1000, max_index_num=4000)
    with reput.MessageStore.open(tmp_path, config, create=True) as store:
        store.put_messages([reput.Message(f"topic-{number}", b"body") for number in range(50)])
    bytes_read.clear()
    assert reput.check(tmp_path, spark=False, config=config).sound
    assert sum(bytes_read) < 8 << 20
