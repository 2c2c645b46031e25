"""Puts that take more than one number: batches in one record, and messages for further queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.log.properties import text_properties
from reput.formats.log.record import FLAG_INNER_BATCH, decode_record
from reput.log.append.append import LogAppender
from reput.log.append.settings import LogSettings
from reput.log.encode.message import Message, PutStatus
from reput.log.encode.topics import TopicState

if TYPE_CHECKING:
    from pathlib import Path

OK, ILLEGAL = PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL


def open_log(folder: Path, **settings: Any) -> LogAppender:
    """A log that takes batches in the topic `batches`, and further queues."""
    values = {"mapped_file_size_commit_log": 1 << 14, "enable_lmq": True, **settings}
    return LogAppender(folder / "commitlog", LogSettings(**values), batch_topics={b"batches"})


def batch(count: str | None = "3", topic: str = "batches", flag: int = FLAG_INNER_BATCH, **more: Any) -> Message:
    """A batch in one record."""
    return Message(topic, b"body", properties={} if count is None else {"INNER_NUM": count}, sys_flag=flag, **more)


def further(names: str, topic: str = "orders", **more: Any) -> Message:
    """A message for further queues."""
    return Message(topic, b"body", properties={"INNER_MULTI_DISPATCH": names}, **more)


def stored(folder: Path, offset: int) -> dict[str, str]:
    """The properties of the record at a log offset."""
    data = (folder / "commitlog" / f"{0:020d}").read_bytes()
    return text_properties(decode_record(data[offset : offset + int.from_bytes(data[offset : offset + 4])]).properties)


@pytest.mark.parametrize("crc", [False, True])
def test_a_batch_takes_as_many_numbers_as_it_counts(crc: bool, tmp_path: Path) -> None:
    """Each batch begins where the one before ended, and says so; a message alone takes one number."""
    with open_log(tmp_path, enabled_append_prop_crc=crc) as log:
        results = [log.append(batch("3"), 2), log.append(Message("batches", b"x"), 2), log.append(batch("5"), 2)]
        results.append(log.append(batch(None), 2))
        assert [result.queue_offset for result in results] == [0, 3, 4, 9]
        assert log.next_offset("batches", 2) == 10
    assert stored(tmp_path, results[0].physical_offset)["INNER_BASE"] == "0"
    assert stored(tmp_path, results[2].physical_offset)["INNER_BASE"] == "4"
    assert stored(tmp_path, results[3].physical_offset)["INNER_BASE"] == "9"
    assert "INNER_BASE" not in stored(tmp_path, results[1].physical_offset)


@pytest.mark.parametrize("count", ["0", "-1", "32768", "x", "", " 3", "3 ", "1" * 40, "٣"])
def test_a_count_that_cannot_be_is_refused(count: str, tmp_path: Path) -> None:
    """A count that is no number, or out of a record's range, uses up neither place nor number."""
    with open_log(tmp_path) as log:
        assert log.append(batch(count)).status is ILLEGAL
        assert (log.wrote, log.next_offset("batches", 0)) == (0, 0)


@pytest.mark.behaviour("BatchConsumeMessageTest.testSendMessagesToCqTopic")
def test_a_batch_belongs_into_a_queue_of_batches(tmp_path: Path) -> None:
    """Another topic refuses it, and a count without the flag is refused anywhere, as RocketMQ does."""
    with open_log(tmp_path) as log:
        assert "queue.type" in log.append(batch(topic="orders")).reason
        assert log.append(batch(flag=0)).status is ILLEGAL
        assert log.append(batch(topic="orders", flag=0)).status is ILLEGAL
        assert log.append_many([Message("orders", b""), batch()]).status is ILLEGAL
        assert log.wrote == 0


def test_further_queues_give_their_numbers(tmp_path: Path) -> None:
    """Each named queue gives its next number, and the record says them in the order of the names."""
    with open_log(tmp_path) as log:
        first = log.append(further("%LMQ%a,%LMQ%b"), 1)
        second = log.append(further("%LMQ%b", tags="t", keys="k"), 1)
        third = log.append(further("%LMQ%b,%LMQ%a"), 1)
        assert [result.queue_offset for result in (first, second, third)] == [0, 1, 2]
        assert (log.next_offset("%LMQ%a", 0), log.next_offset("%LMQ%b", 0)) == (2, 3)
    reported = [stored(tmp_path, one.physical_offset)["INNER_MULTI_QUEUE_OFFSET"] for one in (first, second, third)]
    assert reported == ["0,0", "1", "2,1"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("%LMQ%a,other", "begin with %LMQ%"), ("%LMQ%a,,%LMQ%b", "begin with %LMQ%"), ("%LMQ%a,%LMQ%a", "twice"),
        ("%LMQ%a/b", "folder"), ("%LMQ%" + "x" * 300, "bytes"), (",", "begin with %LMQ%"),
    ],
)  # fmt: skip
def test_further_queues_that_cannot_be_are_refused(names: str, why: str, tmp_path: Path) -> None:
    """A name that is no light queue's would stop RocketMQ's dispatch for good; nothing is stored."""
    with open_log(tmp_path) as log:
        result = log.append(further(names))
        assert result.status is ILLEGAL
        assert why in result.reason
        assert (log.wrote, log.next_offset("%LMQ%a", 0)) == (0, 0)


def test_the_store_gives_these_numbers(tmp_path: Path) -> None:
    """Numbers of further queues that come with a message are refused, whatever is enabled."""
    for enable in (True, False):
        with open_log(tmp_path / str(enable), enable_lmq=enable) as log:
            message = Message("orders", b"", properties={"INNER_MULTI_QUEUE_OFFSET": "7"})
            assert log.append(message).status is ILLEGAL


@pytest.mark.parametrize(
    ("message", "enable"),
    [
        (further("%LMQ%a"), False), (further("%LMQ%a", "%RETRY%g"), True), (further("%LMQ%a", "rmq_sys_x"), True),
        (further("%LMQ%a", sys_flag=4), True), (further("%LMQ%a", "batches"), True),
    ],
)  # fmt: skip
def test_messages_that_go_nowhere_else(message: Message, enable: bool, tmp_path: Path) -> None:
    """Retries, system topics, prepared messages, queues of batches, or without enableLmq: stored as they came."""
    with open_log(tmp_path, enable_lmq=enable) as log:
        result = log.append(message)
        assert result.status is OK
        assert log.next_offset("%LMQ%a", 0) == 0
    assert stored(tmp_path, result.physical_offset) == {"INNER_MULTI_DISPATCH": "%LMQ%a"}


def test_a_full_file_is_rolled(tmp_path: Path) -> None:
    """A message that does not fit goes to the next file, with the numbers that it was given."""
    with open_log(tmp_path, mapped_file_size_commit_log=600) as log:
        results = [log.append(batch("2")) for _ in range(6)] + [log.append(further("%LMQ%a")) for _ in range(6)]
        assert all(result.status is OK for result in results)
        assert [result.queue_offset for result in results] == [0, 2, 4, 6, 8, 10, 0, 1, 2, 3, 4, 5]
        assert log.next_offset("%LMQ%a", 0) == 6


def test_properties_may_become_too_long(tmp_path: Path) -> None:
    """The numbers count in the properties' length; a message that they make too long is refused."""
    names = ",".join(f"%LMQ%{number:04d}" for number in range(2800))
    with open_log(tmp_path, mapped_file_size_commit_log=1 << 17) as log:
        result = log.append(further(names))
        assert result.status is PutStatus.PROPERTIES_SIZE_EXCEEDED
        assert log.next_offset("%LMQ%0000", 0) == 0


@pytest.mark.parametrize("interrupted", [1, 2])
@pytest.mark.parametrize("kind", ["first", "far", "prepared and committed", "batch", "further"])
def test_a_put_of_any_kind_that_is_interrupted_leaves_nothing(
    kind: str, interrupted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt while the queues advance leaves them where they were, and zeros after the end."""
    messages = {
        "batch": batch(),
        "further": further("%LMQ%a,%LMQ%b"),
        "prepared and committed": Message("orders", b"body", sys_flag=0x8),
    }
    message = messages.get(kind, Message("orders", b"body"))
    queue_id = 1 << 20 if kind == "far" else 0
    with open_log(tmp_path) as log:
        true, calls = TopicState.go_on_at, []

        def breaks_off(topic: TopicState, *place: int) -> None:
            calls.append(topic)
            if len(calls) == interrupted:
                raise KeyboardInterrupt
            true(topic, *place)

        monkeypatch.setattr(TopicState, "go_on_at", breaks_off)
        if kind == "further" or interrupted == 1:
            with pytest.raises(KeyboardInterrupt):
                log.append(message, queue_id)
            assert (log.wrote, set(log.next_offsets().values())) == (0, set())
            assert log._end.memory is not None
            assert not any(log._end.memory[:4096])
        monkeypatch.undo()
        assert log.append(message, queue_id).queue_offset == 0
        assert log.append(message, queue_id).queue_offset == (3 if kind == "batch" else 1)
