"""Recall handles: texts that RocketMQ's class makes and takes, and those that it refuses."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.wire.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle

KEY = "AC1100017F0000010000000000000001"
MADE = {
    "orders": "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDAgQUMxMTAwMDE3RjAwMDAwMTAwMDAwMDAwMDAwMDAwMDE=",
    "größe": "djEgZ3LDtsOfZSBicm9rZXItYSAxNzAwMDAwMDAwMDAwIEFDMTEwMDAxN0YwMDAwMDEwMDAwMDAwMDAwMDAwMDAx",
    "a~~~?>": "djEgYX5-fj8-IGJyb2tlci1hIDE3MDAwMDAwMDAwMDAgQUMxMTAwMDE3RjAwMDAwMTAwMDAwMDAwMDAwMDAwMDE=",
}
"""The handle that `HandleV1.buildHandle` of RocketMQ 5.5.1 makes for each topic."""
WORD = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("topic", MADE)
def test_handles_are_rocketmqs(topic: str) -> None:
    """The text of a handle is the one that RocketMQ makes, and is read back, also without its padding."""
    handle = RecallHandle(topic, "broker-a", "1700000000000", KEY)
    assert encode_recall_handle(handle) == MADE[topic]
    assert decode_recall_handle(MADE[topic]) == decode_recall_handle(MADE[topic].rstrip("=")) == handle


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("djEgb3JkZXJzIGIgeCBrZXk=", RecallHandle("orders", "b", "x", "key")),
        ("djEgIGIgNSBrZXk=", RecallHandle("", "b", "5", "key")),
        ("djEgb3JkZXJzIGIgNSBrZXkgbW9yZQ==", RecallHandle("orders", "b", "5", "key")),
        ("djEgYSBiIDUga3==", RecallHandle("a", "b", "5", "k")),
        ("djEgYSBiIDUga3=", None),
        ("djEgb3JkZXJzIGIgNSA=", None),
        ("djIgYSBiIDUgaw==", None),
        ("IHYxIGEgYiA1IGs=", None),
        ("djEg+++=", None),
        ("djEg/w==", None),
        ("?", None),
        ("", None),
        ("djEgYSBiIDUgaw==\n", None),
        ("ä", None),
    ],
)
def test_other_texts_are_taken_as_by_rocketmq(text: str, taken: RecallHandle | None) -> None:
    """`RecallMessageHandle.decodeHandle` takes the same texts, and refuses the same."""
    assert decode_recall_handle(text) == taken


@given(WORD, WORD, WORD, WORD)
def test_a_handle_is_read_back(topic: str, broker_name: str, due_ms: str, unique_key: str) -> None:
    """A handle is what its text says, whatever its words are."""
    handle = RecallHandle(topic, broker_name, due_ms, unique_key)
    assert decode_recall_handle(encode_recall_handle(handle)) == handle


@given(st.binary())
def test_any_bytes_are_a_handle_or_none(data: bytes) -> None:
    """No bytes raise an error."""
    decode_recall_handle(base64.urlsafe_b64encode(data).decode())
