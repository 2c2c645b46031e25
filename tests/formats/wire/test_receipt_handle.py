"""Handles of popped messages, and the retry topics that they name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.topics.pop_topics import TopicKind, kind_of_topic, normal_topic, retry_topic
from reput.formats.wire.receipt_handle import (
    PoppedQueue,
    ReceiptHandle,
    decode_handle,
    encode_handle,
    message_offset_info,
    order_count_info,
    start_offset_info,
)

numbers = st.integers(0, (1 << 63) - 1)
queues = st.integers(0, (1 << 31) - 1)
handles = st.builds(
    ReceiptHandle, numbers, numbers, numbers, queues, st.sampled_from(TopicKind), st.just("b-a"), queues, numbers
)


@given(handles)
def test_a_handle_round_trips(handle: ReceiptHandle) -> None:
    """A handle decodes to what was encoded; a proxy adds the offset in the log."""
    assert decode_handle(encode_handle(handle)) == handle
    assert decode_handle(f"{encode_handle(handle)} 4711") == handle


@given(st.text(max_size=60) | st.lists(st.sampled_from(["0", "1", "-1", "x", "", "9" * 30]), max_size=10).map(" ".join))
def test_another_text_is_no_handle(text: str) -> None:
    """Any other text raises nothing; a handle has no number below 0."""
    handle = decode_handle(text)
    assert handle is None or min(n for n in handle if isinstance(n, int)) >= 0


def test_the_fields_of_an_answer_are_those_of_rocketmq() -> None:
    """Each queue has an entry (`ExtraInfoUtil`); older clients know the least count of a queue."""
    given_queues = [
        PoppedQueue(TopicKind.NORMAL, 2, 10, [10, 12], {10: 3}),
        PoppedQueue(TopicKind.RETRY, 0, 5, [6], {6: 1}),
    ]
    assert start_offset_info(given_queues) == "0 2 10;1 0 5"
    assert message_offset_info(given_queues) == "0 2 10,12;1 0 6"
    assert order_count_info(given_queues) == "0 qo2%10 3;0 2 0;1 qo0%6 1;1 0 1"


@pytest.mark.parametrize("kind", TopicKind)
def test_a_retry_topic_names_its_topic(kind: TopicKind) -> None:
    """The kind of a topic is in its name, and its group finds its topic."""
    name = retry_topic("orders", "billing", kind)
    assert name == {"0": "orders", "1": "%RETRY%billing_orders", "2": "%RETRY%billing+orders"}[kind]
    assert (kind_of_topic(name), normal_topic(name, "billing")) == (kind, "orders")
