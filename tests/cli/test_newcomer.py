"""What a newcomer tries at the command line: each slip ends with words that help, and with exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from support.checked import assert_sound
from support.opened import CONFIG

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
    """What a command says that ends with exit code 2."""
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
    text = refused(capsys, "rebuild", store, "-t", topic, "--engine", "loop")
    assert (
        f"--topic {topic}: neither the log nor {store / 'consumequeue'} has such a topic. Nothing was changed" in text
    )
    assert near in text
