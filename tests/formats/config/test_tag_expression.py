"""A subscription by tags as text becomes the tags that RocketMQ takes from it."""

from __future__ import annotations

import pytest

from reput.formats.config.consumer_filter import SQL92, TAG
from reput.formats.config.tag_expression import tags_of
from reput.formats.java.hashing import java_string_hash
from reput.formats.wire.subscription import Subscription
from reput.store.read.tag_filter import TagFilter


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", ()),
        (" * ", ()),
        ("", ()),
        (" || ", ()),
        ("paid", ("paid",)),
        ("paid || 退款||sent", ("paid", "退款", "sent")),
        ("|| a ||| b", ("a", "| b")),
        ("* || a", ("*", "a")),
    ],
)
def test_tags(expression: str, tags: tuple[str, ...]) -> None:
    """Tags are between double bars, without blanks around them; a filter and a subscription name the same ones."""
    assert tags_of(expression) == tags
    assert TagFilter(expression).tags == tags
    assert TagFilter(expression).codes.tolist() == sorted(java_string_hash(tag) for tag in tags)
    assert Subscription("orders", expression, TAG, 1).tags == tags
    assert Subscription("orders", expression, SQL92, 1).tags == ()
