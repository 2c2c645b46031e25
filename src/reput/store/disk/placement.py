"""The placement of a store's queues: by the settings that are given, else by what its kinds hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.formats.queue.queue_kinds import LIGHT_SETTING, PART_KIND, SELECTIVE_SETTING
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.system_topics import LMQ_PREFIX
from reput.queue.kinds import QueueKind
from reput.queue.placement import EVERYWHERE, QueuePlacement
from reput.store.disk.abort import is_closed
from reput.store.disk.layout import StoreLayout

_TOPICS_ASKED = 200


class FoundPlacement(NamedTuple):
    """A placement, and a line for each setting that comes from what was found."""

    placement: QueuePlacement = EVERYWHERE
    assumed: tuple[str, ...] = ()


class ShownPlacement(NamedTuple):
    """The placement that queues show. `is_guess`: a database cannot be read, so the files alone show it."""

    placement: QueuePlacement = EVERYWHERE
    is_guess: bool = False


def resolved_placement(
    config: StoreConfig, shown: Callable[[], ShownPlacement], lite_topics: frozenset[bytes]
) -> FoundPlacement:
    """Return the placement in a store of several kinds: by the settings that are given, else as its queues show it.

    Args:
        shown: returns what the queues show; it is asked only if a setting is missing.
        lite_topics: the topics of type LITE.
    """
    light, selective = config.combine_cq_use_rocksdb_for_lmq, config.rocksdb_cq_selective_double_write_enable
    found, is_guess = shown() if light is None or selective is None else ShownPlacement()
    # With one setting on, what is found does not turn the other on: light queues would belong to neither kind.
    has_light = bool(found.light_kind) and not selective if light is None else light
    has_part = bool(found.part_kind) and not light if selective is None else selective
    assumed = []
    if light is None and has_light:
        has = "the database of queues cannot be read" if is_guess else "RocksDB has light queues"
        assumed.append(f"{LIGHT_SETTING}=true ({has}, and the files have no light queues)")
    if selective is None and has_part:
        assumed.append(f"{SELECTIVE_SETTING}=true (RocksDB has only topics of type LITE)")
    placement = QueuePlacement(
        PART_KIND if has_light else "", PART_KIND if has_part else "", lite_topics if has_part else frozenset()
    )
    return FoundPlacement(placement, tuple(assumed))


def placement_shown(
    layout: StoreLayout, present: Sequence[QueueKind], lite_topics: frozenset[bytes], *, is_in_part: bool
) -> ShownPlacement:
    """Return the placement that the queues of the present kinds show; `EVERYWHERE` unless there are several kinds.

    A database that cannot be read may have light queues that no other kind has. If the files have none, it is believed
    to: where there is no light queue at all, that changes nothing.

    Args:
        is_in_part: files of a database are left that is not among the kinds, since it lacks others.
    """
    part = next((kind for kind in present if kind.name == PART_KIND), None)
    others = [kind for kind in present if kind.name != PART_KIND]
    if not others or (part is None and not is_in_part):
        return ShownPlacement()
    if part is not None:
        # A check reports a database that cannot be read.
        with contextlib.suppress(DamagedStoreError):
            return ShownPlacement(_shown(layout, part, others[0], lite_topics))
    with others[0].topics_known() as in_files:
        has_light = in_files.any_with(LMQ_PREFIX)
    return ShownPlacement(EVERYWHERE if has_light else QueuePlacement(light_kind=PART_KIND), is_guess=True)


def _shown(layout: StoreLayout, part: QueueKind, whole: QueueKind, lite_topics: frozenset[bytes]) -> QueuePlacement:
    plain = (topic for topic in whole.topics() if topic not in lite_topics and not is_light(topic))
    asked = list(islice(plain, _TOPICS_ASKED))
    with part.topics_known() as in_part, whole.topics_known() as in_whole:
        light = in_part.any_with(LMQ_PREFIX) and not in_whole.any_with(LMQ_PREFIX)
        # A kill before the first flush leaves an empty database, too.
        is_empty = not (part.complete_to() or 0)
        is_part = bool(asked) and not any(map(in_part.has, asked)) and not (is_empty and not is_closed(layout))
    return QueuePlacement(
        part.name if light else "", part.name if is_part else "", lite_topics if is_part else frozenset()
    )


def placement_settings(placement: QueuePlacement) -> list[str]:
    """Return the settings of broker.conf that make a placement."""
    light = [f"{LIGHT_SETTING}=true"] if placement.light_kind else []
    return light + ([f"{SELECTIVE_SETTING}=true"] if placement.part_kind else [])


def unseen_queues(named: Sequence[str], placement: QueuePlacement, shown: ShownPlacement) -> str:
    """Describe light queues that a broker would not see: the settings let it read another kind; "" for none.

    RocketMQ then finds no entry of them, and numbers their next messages from 0 again.

    Args:
        named: the kinds that the settings name, the one that answers reads first.
        placement, shown: as the settings say it, and as the queues show it.

    Source: `DefaultMessageStore.createConsumeQueueStore`, `CombineConsumeQueueStore.getCurrentReadStoreForTopic`,
    `QueueOffsetOperator.getLmqOffset`.
    """
    alone = "" if shown.is_guess else shown.placement.light_kind
    if not named or not alone or alone in {named[0], placement.light_kind}:
        return ""
    return (
        f"light queues are in {alone} queues alone, and with these settings RocketMQ reads {named[0]} queues: it does "
        "not see them, and numbers their messages from 0 again. Set rocksdbCQDoubleWriteEnable=true and "
        f"{LIGHT_SETTING}=true, or build what the settings say with `reput rebuild --only queue`"
    )
