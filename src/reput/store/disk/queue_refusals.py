"""Refusals of the queues that a store has: other kinds or sizes than the settings say, odd files, another owner.

`store.py` lists the purposes of each.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, StoreLockedError
from reput.files import locks
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.queue.files import QUEUES_ASKED, some_queues
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.layout import StoreLayout

_FOLLOWER_CLOSES_S = 30.0
"""The time that a follower has to close the queues of a writer that has ended; it looks for that twice a second."""
_ASK_AGAIN_S = 0.02


def missing_kinds(layout: StoreLayout, wanted: Sequence[str], present: Sequence[QueueKind]) -> str:
    """Describe the wanted kinds of which the store has no queues; "" if it has all of them, or no queues at all."""
    names = [kind.name for kind in present]
    missing = [name for name in wanted if name not in names]
    # A database may exist before the first message, and a store may have only queues of batches.
    if not missing or not any(_has_queue(kind) for kind in present):
        return ""
    return (
        f"{layout.root}: the configuration asks for {' and '.join(missing)} queues, and there are "
        f"{' and '.join(names)} queues. `reput convert` makes them"
    )


def _has_queue(kind: QueueKind) -> bool:
    # A database that cannot be read is damaged, not empty.
    with contextlib.suppress(DamagedStoreError), contextlib.closing(kind.queues()) as queues:
        return next(queues, None) is not None
    return True


def refuse_another_queue_file_size(layout: StoreLayout, config: StoreConfig, file_size: int) -> None:
    """Refuse a configured size if all queue files have one other size.

    A single file may have been cut: then the reader of its entries reports that.

    Raises:
        ConfigError: the setting is wrong, not the files.
    """
    if config.mapped_file_size_consume_queue is None:
        return
    queues = some_queues(layout.consume_queue, QUEUES_ASKED)
    lengths = Counter(file.size for queue in queues for file in queue.files if file.size)
    if len(lengths) == 1 and lengths.total() > 1 and file_size not in lengths:
        raise ConfigError(
            f"mappedFileSizeConsumeQueue={config.mapped_file_size_consume_queue}: the queue files of "
            f"{layout.consume_queue} have {next(iter(lengths))} bytes. Set that, or leave the setting out"
        )


def refuse_odd_queue_files(kinds: Sequence[AnyKind], file_size: int, most: int | None = None) -> None:
    """Refuse queues whose files have a wrong length or place: their names do not show where they end.

    A killed task leaves a file of no bytes; the next catch-up gives it its length, `file_size`. `most`: the number of
    queues of each kind that are checked; the others are checked at their first put (`damaged_queue`).

    Raises:
        DamagedStoreError: there is such a queue; a message put into it would get the number of another message.

    Source: `MappedFileQueue.doLoad`: RocketMQ refuses such a store too.
    """
    for kind in kinds:
        with contextlib.closing(kind.queues()) as queues:
            for queue in islice(queues, most):
                for damage in queue.oddities(file_size).damage:
                    raise DamagedStoreError(damage)


def damaged_queue(kinds: Iterable[AnyKind], key: QueueKey, file_size: int) -> str | None:
    """Return the damage in the files of one queue, to which nothing may be put then; None if there is none."""
    return next((damage for kind in kinds for damage in kind.damage_of(key, file_size)), None)


def refuse_held_kinds(layout: StoreLayout, kinds: Sequence[AnyKind], *, replaces: bool) -> None:
    """Refuse queues that another process has open to write, unless it is a follower, which gives way.

    Queues that this process cannot write since it was forked are refused too. `replaces`: the caller will put other
    files in their place. It waits for a follower to close them: RocksDB writes, when it is closed, to whatever has the
    names of its files.

    RocketMQ opens its database while it loads a store, and takes the store's lock only after recovery.

    Raises:
        StoreLockedError: another process has the queues open.
        ForkedStoreError: see `AnyKind.refuse_in_fork`.
    """
    for kind in kinds:
        kind.refuse_in_fork()
    is_followed = locks.owner_is_live(layout.own(own.FOLLOWER_NAME))
    if is_followed and not (replaces and _is_of_another_process(layout)):
        return
    deadline = time.monotonic() + (_FOLLOWER_CLOSES_S if is_followed else 0.0)
    for kind in kinds:
        while kind.is_held():
            if time.monotonic() >= deadline:
                raise StoreLockedError(
                    f"{kind.folder}: another process has these {kind.name} queues open to write, such as a broker "
                    "that is starting. Stop it, or wait for it"
                )
            time.sleep(_ASK_AGAIN_S)


def _is_of_another_process(layout: StoreLayout) -> bool:
    """Return True if the follower is not in this process: to ask for a lock of its own would drop that."""
    with contextlib.closing(Watermarks(layout.own(own.WATERMARKS_NAME), read_only=True)) as marks:
        return marks["follower"] != os.getpid()
