"""The topics with queues of batches: by the attribute `queue.type` of a topic, else by the store's folders.

A topic of the broker's without the attribute is SimpleCQ, as in RocketMQ, and so is a topic that the broker does not
have: one that it deleted. If the topics are not those of a broker, another topic has queues of batches if
batchconsumequeue has its folder; without a folder its records decide.

Source: `QueueTypeUtils.getCQType`, `ConsumeQueueStore.queueTypeShouldBe`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.files import fs
from reput.files import names as folder_names
from reput.formats.paths import is_topic_folder_name
from reput.formats.queue.queue_types import BATCH, QUEUE_TYPE, SIMPLE, QueueTypes
from reput.formats.stored_text import shown_text, stored_bytes, stored_text
from reput.queue.kinds import AnyKind
from reput.store.disk.layout import StoreLayout
from reput.store.metadata.topics import Topics


def queue_types(layout: StoreLayout, configured: Topics) -> QueueTypes:
    """Return the types of queues, by configuration and folders.

    Raises:
        ConfigError: a topic names a type that RocketMQ does not know.
    """
    batch_names: set[str] = set()
    for topic, config in configured.topics.items():
        kind = _queue_type(config)
        if kind not in {SIMPLE, BATCH}:
            raise ConfigError(f"{configured.place}: topic {topic}: {QUEUE_TYPE}={kind}; give {SIMPLE} or {BATCH}")
        if kind == BATCH:
            batch_names.add(topic)
    simple_names = configured.topics.keys() - batch_names if batch_names else configured.topics
    simple = frozenset([name.encode("utf-8", "surrogatepass") for name in simple_names])
    batch = {name.encode("utf-8", "surrogatepass") for name in batch_names}
    for entry in fs.list_dir(layout.batch_consume_queue):
        topic_name = stored_bytes(entry.name)
        if not entry.is_file and topic_name not in simple and not configured.has_every_attribute:
            batch.add(topic_name)
    return QueueTypes(frozenset(batch), simple, configured.has_every_attribute)


def _queue_type(config: Any) -> Any:
    """Return the type that a topic's configuration names; SimpleCQ if it names none."""
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return attributes.get(QUEUE_TYPE, SIMPLE) if attributes and isinstance(attributes, dict) else SIMPLE


def refuse_misplaced_queues(layout: StoreLayout, types: QueueTypes) -> None:
    """Refuse a store whose folders contradict its topics, as RocketMQ does when it loads the store.

    Raises:
        DamagedStoreError: a folder contradicts a topic.
    """
    for what in misplaced_queues(layout, types):
        raise DamagedStoreError(
            f"{what}. Correct the topic, or build the queues anew with `reput rebuild --only queue`"
        )


def kind_without_batches(types: QueueTypes, kinds: Iterable[AnyKind]) -> str:
    """Return the first of these kinds that cannot be beside queues of batches; "" if there is none, or no batch."""
    return next((kind.name for kind in kinds if not kind.allows_batches), "") if types.batch else ""


def refuse_batches_beside(types: QueueTypes, kinds: Iterable[AnyKind]) -> None:
    """Refuse queues of batches beside kinds in which RocketMQ loses all messages of a batch but the first.

    Raises:
        UnsupportedStoreError: the store has both.
    """
    alone = kind_without_batches(types, kinds)
    if alone:
        named = shown_text(min(types.batch))
        raise UnsupportedStoreError(
            f"topic {named}: its {QUEUE_TYPE} is {BATCH}, and {alone} queues cannot hold batches: RocketMQ has no "
            "entries in them for the messages inside a batch. reput neither reads nor builds a store with both"
        )


def misplaced_queues(layout: StoreLayout, types: QueueTypes) -> list[str]:
    """List the topics in the folder of the other type of queues; RocketMQ refuses such a store."""
    # There are few topics of batches and perhaps very many others, so each topic of batches is looked up.
    named = [stored_text(name) for name in sorted(types.batch)]
    found = [
        f"{layout.consume_queue / name}: queues of type {SIMPLE}, and the topic's {QUEUE_TYPE} is {BATCH}"
        for name in named
        if is_topic_folder_name(os.fsencode(name)) and folder_names.is_own_dir(layout.consume_queue / name)
    ]
    for entry in fs.list_dir(layout.batch_consume_queue):
        topic, place = stored_bytes(entry.name), layout.batch_consume_queue / entry.name
        if not entry.is_file and topic in types.simple:
            found.append(f"{place}: queues of type {BATCH}, and the topic's {QUEUE_TYPE} is {SIMPLE}")
        elif not entry.is_file and types.others_are_simple and topic not in types.batch:
            found.append(f"{place}: queues of type {BATCH}, and the broker has no such topic, so it does not start")
    return found
