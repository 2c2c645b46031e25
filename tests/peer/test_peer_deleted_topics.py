"""Topics that a whole broker 5.5.0 deletes, and makes again without a message: what it leaves is no damage."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import reput
from peer import peer as program
from peer.turns import Turn
from reput.config import StoreConfig, parse_properties
from reput.formats.log.record import FLAG_INNER_BATCH
from support import golden
from support.checked import assert_sound
from support.search import takes_long
from support.switches import lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.check.report import Finding

pytestmark = pytest.mark.peer

KINDS = {"json": "", "separate": lines_of("separate"), "config-v2": lines_of("config-v2")}
"""Golden stores, whose log has messages of the topics, with the switches of their broker."""
OF_BATCHES = {"batch": "", "batch-v2": "configManagerVersion=v2\n"}
"""Switches of brokers with topics of batches, which are in no RocksDB."""


@pytest.fixture(autouse=True)
def _broker() -> None:
    """Skip without Maven or Java."""
    reason = program.available("broker")
    if reason is not None:
        pytest.skip(reason)


def administered(folder: Path, store: Path, kind: str, lines: list[dict[str, Any]]) -> None:
    """Have a broker with a store do what the lines say, and close it."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    options = [word for line in (golden.CONFIG + (KINDS | OF_BATCHES)[kind]).split() for word in ("--set", line)]
    with Turn(program.turn_words("broker", store, home, *options), home) as turn:
        turn.answer()
        turn.ask(lines)
        turn.close()


def missing(store: Path) -> list[Finding]:
    """The findings about queues that are not there."""
    found = reput.check(store, spark=False).findings
    return [one for one in found if one.rule in {"queue-missing", "queue-of-deleted-topic"}]


@takes_long
@pytest.mark.parametrize("kind", ["json", "separate", "config-v2"])
def test_a_topic_that_a_broker_deleted_and_made_again_was_damage(kind: str, tmp_path: Path) -> None:
    """Its queues are a note, with and without the topic; the groups of other topics keep their offsets."""
    store = golden.unpack(kind, tmp_path)
    assert not missing(store)
    with reput.MessageStore.open(store, read_only=True) as opened:
        queues = {f"orders/{queue.queue_id}" for queue in opened.queues("orders")}
    made = {"new-topic": "orders", "queues": 4, "attributes": {}}
    for lines in ([{"delete-topic": "orders"}, {"persist": []}], [made, {"persist": []}]):
        administered(tmp_path, store, kind, lines)
        assert_sound(store)
        found = missing(store)
        assert {one.detail.partition(":")[0] for one in found} == queues
        assert {(one.rule, one.severity) for one in found} == {("queue-of-deleted-topic", "note")}
    again = [{"topic": "orders", "queue": 1, "body": "new", "flag": 0, "sysFlag": 0, "properties": {"UNIQ_KEY": "U1"}}]
    administered(tmp_path, store, kind, [*again, {"await": "dispatch"}, {"persist": []}])
    assert_sound(store)
    assert {one.detail.partition(":")[0] for one in missing(store)} == queues - {"orders/1"}


@takes_long
@pytest.mark.parametrize("kind", OF_BATCHES)
def test_a_topic_of_batches_that_a_broker_deleted_and_brought_back_in_part_was_damage(
    kind: str, tmp_path: Path
) -> None:
    """The next start makes plain entries of its last batches: a note, and the broker starts on what a rebuild makes."""
    store, numbers = tmp_path / "store", itertools.count()
    store.mkdir()

    def message(topic: str, messages: int = 0) -> dict[str, Any]:
        properties = {"UNIQ_KEY": f"U{next(numbers)}"} | ({"INNER_NUM": str(messages)} if messages else {})
        flag = FLAG_INNER_BATCH if messages else 0
        return {"topic": topic, "queue": 0, "body": "x", "flag": 0, "sysFlag": flag, "properties": properties}

    made = {"new-topic": "batches", "queues": 1, "attributes": {"+queue.type": "BatchCQ"}}
    puts = [message(topic, count) for topic, count in [("batches", 2), ("orders", 0), ("batches", 3), ("batches", 4)]]
    for lines in ([made, *puts, {"await": "dispatch"}, {"persist": []}], [{"delete-topic": "batches"}]):
        administered(tmp_path, store, kind, [*lines, {"persist": []}])
    config = StoreConfig.from_properties(parse_properties(golden.CONFIG))
    for is_rebuilt in (False, True):
        administered(tmp_path, store, kind, [{"await": "dispatch"}])
        assert_sound(store, config)
        assert (store / "consumequeue" / "batches" / "0").is_dir()
        rules = {one.rule for one in reput.check(store, spark=False, config=config).findings}
        assert ("queue-of-deleted-topic" in rules) is not is_rebuilt
        reput.rebuild(store, spark=False, config=config)
        assert not (store / "batchconsumequeue" / "batches").exists()
    assert_sound(store, config)
