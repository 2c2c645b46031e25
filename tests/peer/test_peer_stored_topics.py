"""A whole broker 5.5.0 on a store whose topics reput serve has made from its queues, also from those of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from peer import peer as program
from peer.turns import Turn
from support import golden, stores
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peer


def test_a_broker_starts_on_the_topics_that_a_served_store_has_got(tmp_path: Path) -> None:
    """RocketMQ loads the queues of batches and the plain ones with the offsets that they had; the store stays sound."""
    if (reason := program.available("broker")) is not None:
        pytest.skip(reason)
    store = golden.unpack("batch", tmp_path)
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        queues = {(one.topic, one.queue_id): one.max_offset for one in opened.queues()}
    with reput.serve(store, config=stores.GOLDEN):
        pass
    home = tmp_path / "home"
    home.mkdir()
    options = [word for line in golden.CONFIG.split() for word in ("--set", line)]
    with Turn(program.turn_words("broker", store, home, *options), home) as turn:
        turn.answer()
        turn.ask([{"await": "dispatch"}])
        answers = turn.ask([{"queue": list(queue)} for queue in queues])
        turn.close()
    assert {tuple(one["queue"]): one["max"] for one in answers} == queues
    assert_sound(store, stores.GOLDEN)
    assert not (store / "consumequeue" / "batches").exists()
