"""Names of files and folders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats import paths
from support import golden
from support.records import BAD_TOPICS, GOOD_TOPICS


@given(st.integers(0, (1 << 63) - 1))
def test_offset_names_round_trip_and_sort(offset: int) -> None:
    """A file's name is its start offset in 20 digits, and names sort as their offsets do."""
    name = paths.offset_name(offset)

    assert len(name) == 20
    assert paths.parse_offset_name(name) == offset
    assert offset == 0 or paths.offset_name(offset - 1) < name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0",
        "0000000000000000000",
        "000000000000000000000",
        "-0000000000000000001",
        "+0000000000000000001",
        " 0000000000000000001",
        "0000000000000000000x",
        "00000000000000000000\n",
        "0000000000000000_000",
        "99999999999999999999",
        "09223372036854775808",
        "\u0660" * 20,
        "00000000000000000000.tmp",
    ],
)
def test_near_misses_are_no_offset_names(name: str) -> None:
    """A name that RocketMQ would not have written is no file of a sequence."""
    assert paths.parse_offset_name(name) is None


@pytest.mark.parametrize(("name", "queue_id"), [("0", 0), ("7", 7), ("10", 10), ("2147483647", (1 << 31) - 1)])
def test_queue_names(name: str, queue_id: int) -> None:
    """A queue's folder is named by its id."""
    assert paths.parse_queue_name(name) == queue_id


@pytest.mark.parametrize("name", ["", "-1", "00", "01", "1 ", "x", "1\n", "2147483648", "99999999999", "\u0663"])
def test_near_misses_are_no_queue_names(name: str) -> None:
    """A name that is not exactly a queue id's is no queue's folder."""
    assert paths.parse_queue_name(name) is None


def test_topics_that_can_be_folders() -> None:
    """A topic is a folder's name when it is valid UTF-8, without separator, short enough, and no dot name."""
    assert all(map(paths.is_topic_folder_name, (*GOOD_TOPICS, b"...", b".a", b" ", b"a\\b", b"%RETRY%a%b")))
    assert not any(map(paths.is_topic_folder_name, BAD_TOPICS))


@given(st.binary(max_size=300))
def test_a_topic_never_leaves_its_folder(topic: bytes) -> None:
    """A text that counts as a folder's name is one path component that decodes."""
    if paths.is_topic_folder_name(topic):
        assert topic.decode().count("/") == 0
        assert topic not in (b".", b"..", b"")
        assert len(topic) <= 255


@pytest.mark.golden
def test_golden_names_parse() -> None:
    """Every file of the log and the queues that RocketMQ wrote has a name that we parse."""
    store = golden.shared("basic")
    for path in (store / paths.COMMIT_LOG).iterdir():
        assert paths.parse_offset_name(path.name) is not None
    for topic in (store / paths.CONSUME_QUEUE).iterdir():
        assert paths.is_topic_folder_name(topic.name.encode())
        for queue in topic.iterdir():
            assert paths.parse_queue_name(queue.name) is not None
            assert all(paths.parse_offset_name(path.name) is not None for path in queue.iterdir())
