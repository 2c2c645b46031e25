"""Names of lite topics, and the time after which they expire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.topics.lite_topics import LITE, LiteTopic, decode_lite_topic, expiration_of, is_light, light_queue_of

PARTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="$"), min_size=1, max_size=20)


@pytest.mark.behaviour("LiteUtilTest.testToLmqName", "LiteUtilTest.testGetParentTopic", "LiteUtilTest.testGetLiteTopic")
@given(parent=PARTS, name=PARTS)
def test_both_names_come_back(parent: str, name: str) -> None:
    """A light queue's name gives the parent and the name that made it."""
    queue = light_queue_of(parent.encode(), name.encode())
    assert decode_lite_topic(queue) == LiteTopic(parent.encode(), name.encode())
    assert is_light(queue)
    assert is_light(queue.decode())


@pytest.mark.behaviour("LiteUtilTest.testBelongsTo")
@given(parent=PARTS, other=PARTS, name=PARTS)
def test_a_lite_topic_belongs_to_its_parent_alone(parent: str, other: str, name: str) -> None:
    """A light queue has one parent, whatever the begins and ends of other topics' names."""
    queue = light_queue_of(parent.encode(), name.encode())
    for topic in (other, parent + other, parent[:-1]):
        found = decode_lite_topic(queue)
        assert found is not None
        assert (found.parent == topic.encode()) == (topic == parent)
        assert queue.startswith(light_queue_of(topic.encode(), b"")) == (topic == parent)


@pytest.mark.behaviour("LiteUtilTest.testGetParentAndLiteTopic", "LiteUtilTest.testToLmqName")
@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "%LMQ%orders",
        "%LMQ%$",
        "%LMQ%$a",
        "%LMQ%$a$",
        "%LMQ%$$b",
        "%LMQ%$$",
        "%LMQ%$a$b$",
        "%LMQ%$a$b$c",
        "$a$b",
    ],
)
def test_other_names_are_no_lite_topics(name: str) -> None:
    """A name without parent or lite name, or with a third part, belongs to no lite topic."""
    assert decode_lite_topic(name.encode()) is None


@pytest.mark.parametrize(
    ("attributes", "minutes"),
    [
        ({"message.type": LITE, "lite.topic.expiration": "60"}, 60),
        ({"message.type": LITE, "lite.topic.expiration": "-1"}, -1),
        ({"message.type": LITE, "lite.topic.expiration": "1e3"}, -1),
        ({"message.type": LITE, "lite.topic.expiration": str(1 << 31)}, -1),
        ({"message.type": LITE}, -1),
        ({"message.type": "NORMAL", "lite.topic.expiration": "60"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_expirations(attributes: object, minutes: int | None) -> None:
    """A topic of type LITE without a number of 32 bits never expires; other topics have no expiration."""
    assert expiration_of(attributes) == minutes
