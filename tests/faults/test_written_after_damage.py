"""A store with one damaged field is opened to write: no message of it is destroyed in silence."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

import reput
from reput.errors import ReputError
from reput.formats import paths
from support import search, stores
from support.damage.judge import damaged
from support.damage.stores import OURS, subject
from support.damage.sweep import damages

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig
    from support.damage.judge import Damage
    from support.damage.stores import Subject

STORES = ("basic", "crash", "ext", "batch", "double", "rocksdb", "json", "lmq", OURS)
SEED = 7
TRIED = search.cases(4, 200)
"""Damages of each store."""
_PULL = 1000


class Stored(NamedTuple):
    """A message of a queue: its log offset, and the bytes of its record."""

    topic: str
    queue_id: int
    offset: int
    record: bytes

    def is_hit(self, at: range) -> bool:
        """Return True if some of these bytes of the log are its own."""
        return self.offset < at.stop and at.start < self.offset + len(self.record)


def messages(path: Path, config: StoreConfig | None) -> set[Stored]:
    """Return the messages that can be read."""
    found = set()
    with reput.MessageStore.open(path, config, read_only=True) as store:
        for topic, queue_id, begin, end in store.queues():
            offset = begin
            while offset < end:
                try:
                    result = store.get_message(topic, queue_id, offset, _PULL)
                except ReputError:
                    break
                for message in result:
                    with suppress(ReputError):
                        _ = message.record
                        found.add(Stored(topic, queue_id, message.physical_offset, bytes(message.raw)))
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
    return found


def write(path: Path, config: StoreConfig | None, some: list[Stored]) -> bool:
    """Open a store to write, and put messages to the queues of some; return False if the store refuses."""
    try:
        with reput.MessageStore.open(path, config) as store:
            for one in some:
                store.put_message(reput.Message(one.topic, b"put after the damage"), one.queue_id)
    except ReputError:
        return False
    return True


def logs_of(path: Path) -> list[dict[int, bytes]]:
    """Return the files of a store's log by their start, and those of each log that was kept before it was cut."""
    folders = [path / paths.COMMIT_LOG, *(kept / paths.COMMIT_LOG for kept in (path / paths.REPUT).glob("cut-*"))]
    return [{int(file.name): file.read_bytes() for file in folder.iterdir()} for folder in folders]


def is_in(log: dict[int, bytes], one: Stored) -> bool:
    """Return True if a log has a record."""
    start = max((start for start in log if start <= one.offset), default=None)
    return start is not None and log[start][one.offset - start :].startswith(one.record)


def lost(one: Damage, found: Subject, whole: set[Stored], path: Path) -> list[Stored]:
    """Write to a damaged copy of a store; return the messages that were destroyed in silence."""
    with damaged(one):
        stores.copy(found.path, path)
    place, hit = one.place.path, range(0)
    if place.parent.name == paths.COMMIT_LOG:
        at = int(place.name) + one.offset
        hit = range(at, at + len(one.data) if one.data is not None else 1 << 62)
    others = {message for message in whole if not message.is_hit(hit)}
    is_written = write(path, found.config, sorted(whole)[:: max(1, len(whole) // 3)])
    log, *kept = logs_of(path)
    gone = [message for message in others if not any(is_in(one, message) for one in (log, *kept))]
    if gone or not is_written:
        # What is refused is said, and destroys nothing either.
        return gone
    try:
        after = messages(path, found.config)
        is_sound = reput.check(path, spark=False, config=found.config).sound
    except ReputError:
        return []
    return [message for message in sorted(others - after) if is_in(log, message)] if is_sound else []


@pytest.mark.parametrize("name", STORES)
def test_no_message_is_destroyed_in_silence(name: str, tmp_path: Path) -> None:
    """Each message is there afterwards, or the store says that something is wrong. The damaged record may be gone."""
    found = subject(name, tmp_path)
    whole = messages(found.path, found.config)
    chance = random.Random(f"{name} {SEED}")
    every = list(damages(found, 1, 1, seed=SEED))
    for number, one in enumerate(chance.choices(every, k=TRIED)):
        path = tmp_path / f"copy-{number}"
        gone = lost(one, found, whole, path)
        assert not gone, f"seed {SEED}: {one}: {len(gone)} messages are gone, the first one is {gone[0]}"
        shutil.rmtree(path)
