"""The kinds of queues of a store, by its files or else its configuration."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from reput.config import StoreConfig, rocketmq_names
from reput.errors import ConfigError, DamagedStoreError, StoreLockedError, UnsupportedStoreError
from reput.files import fs, locks
from reput.files import names as folder_names
from reput.formats import own, paths
from reput.formats.consume_queue import DEFAULT_FILE_SIZE, QueueKey
from reput.formats.lite_topics import is_light
from reput.formats.queue_kinds import (
    DEFAULT_KINDS,
    DEFAULT_STORE_TYPE,
    DOUBLE_WRITE,
    FILE,
    ROCKSDB,
    STORE_TYPES,
    TARGET_SETTINGS,
    TARGETS,
)
from reput.formats.record import LMQ_PREFIX
from reput.queue.batch_files import BatchFiles
from reput.queue.file_kind import FileKind
from reput.queue.files import some_queues
from reput.queue.kinds import AnyKind, QueueKind
from reput.queue.placement import EVERYWHERE, QueuePlacement
from reput.store.disk.layout import StoreLayout

if TYPE_CHECKING:
    from reput.queue.rocksdb_kind import RocksdbKind

_QUEUES_ASKED = 200


def all_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> dict[str, QueueKind]:
    """Return every kind that reput knows, by name."""
    return {name: kind_named(name, layout, file_size) for name in (FILE, ROCKSDB)}


def kinds_in_any_folder(layout: StoreLayout) -> list[QueueKind]:
    """Return every kind in every folder that it may be in, to know its files."""
    places = [replace(layout, separate_database=separate) for separate in (False, True)]
    return [kind_named(FILE, layout), *(kind_named(ROCKSDB, place) for place in places)]


def kind_named(name: str, layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> QueueKind:
    """Return the queues of one kind in a store, present or not."""
    if name == FILE:
        return FileKind(layout.consume_queue, file_size)
    return _database(layout)


def _database(layout: StoreLayout) -> RocksdbKind:
    # Loaded only for a store that has it: loading takes longer than a small question.
    from reput.queue.rocksdb_kind import RocksdbKind

    return RocksdbKind(layout.queue_database, layout.own(own.ROCKSDB_LOGS), partial(_log_end, layout.commit_log))


def _log_end(commit_log: Path) -> int:
    """Return the log offset after the log's last file; no file is read."""
    ends = [0]
    for entry in fs.list_dir(commit_log):
        start = None if entry.is_dir else paths.parse_offset_name(entry.name)
        ends.append(0 if start is None else start + fs.size_in(commit_log, entry))
    return max(ends)


def present_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the kinds of which the store has queues."""
    files = kind_named(FILE, layout, file_size)
    found = [files] if files.is_present() else []
    if folder_names.is_database(layout.queue_database):
        found.append(kind_named(ROCKSDB, layout, file_size))
    return found


def configured_kinds(config: StoreConfig) -> list[str]:
    """Return the kinds that the configuration asks for, the one that answers reads first; empty if it names none.

    Raises:
        UnsupportedStoreError: a storeType that reput does not know.
    """
    store_type = config.store_type or (DEFAULT_STORE_TYPE if config.rocksdb_cq_double_write_enable else None)
    if store_type is None:
        return []
    first = STORE_TYPES.get(store_type)
    if first is None:
        known = " or ".join(STORE_TYPES)
        raise UnsupportedStoreError(f"storeType={store_type}: reput does not know this type of store. Give {known}")
    # RocketMQ writes both kinds only if the store type is files.
    if config.rocksdb_cq_double_write_enable and store_type == DEFAULT_STORE_TYPE:
        return _combined_kinds(config)
    return [first]


def _combined_kinds(config: StoreConfig) -> list[str]:
    """Return the kinds of a double write, the one that answers reads first.

    Raises:
        ConfigError: RocketMQ refuses these settings.

    Source: the constructor of `CombineConsumeQueueStore`, `StoreType.fromString`.
    """
    types = {name.lower(): kind for name, kind in STORE_TYPES.items()}
    given = (config.combine_cq_loading_cq_types or ";".join(STORE_TYPES)).split(";")
    loaded = [kind for kind in DOUBLE_WRITE if kind in {types.get(one.lower()) for one in given}]
    reads, numbers = (
        _loaded_kind(config, name, loaded) for name in ("combine_cq_prefer_cq_type", "combine_assign_offset_cq_type")
    )
    light, selective = config.combine_cq_use_rocksdb_for_lmq, config.rocksdb_cq_selective_double_write_enable
    if light and ROCKSDB not in loaded:
        raise ConfigError(f"{config.given('combine_cq_use_rocksdb_for_lmq')}: combineCQLoadingCQTypes lacks RocksDB")
    if (light or selective) and numbers != FILE:
        text = config.given("combine_assign_offset_cq_type")
        raise ConfigError(f"{text}: RocketMQ refuses that with light queues or LITE topics alone in RocksDB")
    if selective and reads != FILE:
        text = config.given("combine_cq_prefer_cq_type")
        raise ConfigError(f"{text}: RocketMQ refuses that with rocksdbCQSelectiveDoubleWriteEnable=true")
    return [reads, *(kind for kind in loaded if kind != reads)]


def _loaded_kind(config: StoreConfig, name: str, loaded: Sequence[str]) -> str:
    """Return the kind that a setting names, which must be loaded."""
    value = getattr(config, name) or DEFAULT_STORE_TYPE
    kind = next((kind for known, kind in STORE_TYPES.items() if known.lower() == value.lower()), "")
    if kind not in loaded:
        own = "" if getattr(config, name) else " (the default)"
        raise ConfigError(
            f"{rocketmq_names()[name]}={value}{own}: combineCQLoadingCQTypes={config.combine_cq_loading_cq_types} does "
            "not load it, and RocketMQ does not start"
        )
    return kind


def find_placement(
    layout: StoreLayout, config: StoreConfig, lite_topics: frozenset[bytes], assumed: list[str]
) -> QueuePlacement:
    """Return which kinds hold which queues: by the settings that are given, else by what the kinds hold.

    Args:
        lite_topics: the topics of type LITE.
        assumed: takes a line for each setting that comes from what was found.

    Raises:
        ConfigError: RocketMQ refuses the settings.
    """
    names = configured_kinds(config) or [kind.name for kind in present_kinds(layout)]
    if len(names) < 2:
        return EVERYWHERE
    found = EVERYWHERE
    light, selective = config.combine_cq_use_rocksdb_for_lmq, config.rocksdb_cq_selective_double_write_enable
    if light is None or selective is None:
        # A check reports a database that cannot be read.
        with contextlib.suppress(DamagedStoreError):
            found = _found_placement(layout, lite_topics)
    # With one setting on, what is found does not turn the other on: light queues would belong to neither kind.
    placement = QueuePlacement(
        found.light_in_rocksdb and not selective if light is None else light,
        (None if light else found.rocksdb_topics) if selective is None else lite_topics if selective else None,
    )
    if light is None and placement.light_in_rocksdb:
        assumed.append("combineCQUseRocksdbForLmq=true (RocksDB has light queues, and the files have none)")
    if selective is None and placement.rocksdb_topics is not None:
        assumed.append("rocksdbCQSelectiveDoubleWriteEnable=true (RocksDB has only topics of type LITE)")
    return placement


def _found_placement(layout: StoreLayout, lite_topics: frozenset[bytes]) -> QueuePlacement:
    """Return the placement that the present queues show; `EVERYWHERE` unless both kinds have queues."""
    files = kind_named(FILE, layout)
    if not files.is_present() or not folder_names.is_database(layout.queue_database):
        return EVERYWHERE
    database, plain = _database(layout), list[bytes]()
    in_files = False
    for topic in files.topics():
        if is_light(topic):
            in_files = True
        elif topic not in lite_topics and len(plain) < _QUEUES_ASKED:
            plain.append(topic)
    with database.topics_known() as knows:
        light = not in_files and knows.any_with(LMQ_PREFIX)
        # A kill before the first flush leaves an empty database, too.
        is_empty = not (database.complete_to() or 0)
        selective = bool(plain) and not any(map(knows.has, plain)) and not (is_empty and fs.exists(layout.abort))
    return QueuePlacement(light, lite_topics if selective else None)


def store_kinds(
    layout: StoreLayout, config: StoreConfig | None = None, file_size: int = DEFAULT_FILE_SIZE
) -> list[QueueKind]:
    """Return the kinds that a store has, the one that answers reads first.

    These are queue files if neither the store's files nor its settings name a kind.

    Raises:
        UnsupportedStoreError: the configuration asks for a kind that the store, which has queues, does not have, or a
            database of queues is in another folder than it says.
    """
    wanted, present = configured_kinds(config or StoreConfig()), present_kinds(layout, file_size)
    names = [kind.name for kind in present]
    refuse_misplaced_database(layout)
    if why := _missing_kinds(layout, wanted, present):
        raise UnsupportedStoreError(why)
    return kinds_named(_in_order(wanted, names) or DEFAULT_KINDS, layout, file_size)


def _missing_kinds(layout: StoreLayout, wanted: Sequence[str], present: Sequence[QueueKind]) -> str:
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


def contradicted_kinds(layout: StoreLayout, config: StoreConfig) -> list[str]:
    """Describe what the settings say about the places of queues, and the files contradict.

    Raises:
        ConfigError: RocketMQ refuses the settings.
    """
    placed = replace(layout, separate_database=config.use_separate_store_path_for_rocksdb_cq)
    # `check` reports two databases as damage.
    misplaced = "" if misplaced_database(layout.as_found()) else misplaced_database(placed)
    missing = _missing_kinds(layout, configured_kinds(config), present_kinds(layout.as_found()))
    return [text for text in (misplaced, missing) if text]


def refuse_misplaced_database(layout: StoreLayout) -> None:
    """Refuse a database of queues outside the folder that the settings name, and two of them.

    Raises:
        UnsupportedStoreError: there is one.

    Source: `RocksDBConsumeQueueStore`: "find RocksDBConsumeQueue in original/separate path".
    """
    if why := misplaced_database(layout):
        raise UnsupportedStoreError(why)


def misplaced_database(layout: StoreLayout) -> str:
    """Describe a database of queues outside the folder that the settings name, which RocketMQ refuses; "" for none."""
    here, other = layout.queue_database, layout.other_queue_database
    if not folder_names.is_database(other):
        return ""
    if folder_names.is_database(here):
        return (
            f"{here} and {other}: both are databases of queues, and RocketMQ refuses a store with two. `reput rebuild "
            "--only queue --set useSeparateStorePathForRocksdbCQ=...` builds the one that broker.conf names and "
            "removes the other"
        )
    if layout.separate_database is None:
        return ""
    return (
        f"useSeparateStorePathForRocksdbCQ={str(layout.separate_database).lower()}, and the database of queues is in "
        f"{other}: RocketMQ refuses that. Correct the setting, or move the queues with `reput convert`"
    )


def broker_settings(layout: StoreLayout, config: StoreConfig, target: str) -> str:
    """Return the settings of broker.conf that go with queues converted to a target, where they are now."""
    said = [TARGET_SETTINGS[target]]
    is_separate = layout.queue_database != layout.consume_queue
    if is_separate or layout.separate_database is not None:
        said.append(f"useSeparateStorePathForRocksdbCQ={str(is_separate).lower()}")
    placed = find_placement(layout, replace(config, store_type=None), frozenset(), [])
    said += placed.of_kinds(TARGETS[target]).settings
    return ", ".join(said)


def kinds_named(names: Sequence[str], layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the queues of these kinds, in this order, present or not."""
    return [kind_named(name, layout, file_size) for name in names]


def _has_queue(kind: QueueKind) -> bool:
    with contextlib.closing(kind.queues()) as queues:
        return next(queues, None) is not None


def refuse_another_queue_file_size(layout: StoreLayout, config: StoreConfig, file_size: int) -> None:
    """Refuse a configured size if all queue files have one other size.

    A single file may have been cut: then the reader of its entries reports that.

    Raises:
        ConfigError: the setting is wrong, not the files.
    """
    if config.mapped_file_size_consume_queue is None:
        return
    queues = some_queues(layout.consume_queue, _QUEUES_ASKED)
    lengths = Counter(file.size for queue in queues for file in queue.files if file.size)
    if len(lengths) == 1 and lengths.total() > 1 and file_size not in lengths:
        raise ConfigError(
            f"mappedFileSizeConsumeQueue={config.mapped_file_size_consume_queue}: the queue files of "
            f"{layout.consume_queue} have {next(iter(lengths))} bytes. Set that, or leave the setting out"
        )


def refuse_odd_queue_files(
    kinds: Sequence[QueueKind], batches: BatchFiles, file_size: int, most: int | None = None
) -> None:
    """Refuse queues whose files have a wrong length or place: their names do not show where they end.

    A killed task leaves a file of no bytes; the next catch-up gives it its length, `file_size`. `most`: the number of
    queues of each kind that are checked; the others are checked at their first put (`damaged_queue`).

    Raises:
        DamagedStoreError: there is such a queue; a message put into it would get the number of another message.

    Source: `MappedFileQueue.doLoad`: RocketMQ refuses such a store too.
    """
    # Queues of batches are few, and a put does not look at their files again.
    for kind, most_of_kind in (*((kind, most) for kind in kinds), (batches, None)):
        with contextlib.closing(kind.queues()) as queues:
            for queue in islice(queues, most_of_kind):
                for damage in queue.oddities(file_size).damage:
                    raise DamagedStoreError(damage)


def every_kind(layout: StoreLayout, kinds: Sequence[QueueKind]) -> list[AnyKind]:
    """Return these kinds, and the queues of batches that a store may have beside them."""
    return [*kinds, BatchFiles(layout.batch_consume_queue)]


def damaged_queue(kinds: Sequence[QueueKind], key: QueueKey, file_size: int) -> str | None:
    """Return the damage in the files of one queue, to which nothing may be put then; None if there is none."""
    return next((damage for kind in kinds for damage in kind.damage_of(key, file_size)), None)


def refuse_held_kinds(layout: StoreLayout, kinds: Sequence[QueueKind]) -> None:
    """Refuse queues that another process has open to write, unless it is a follower, which gives way.

    Queues that this process cannot write since it was forked are refused too.

    RocketMQ opens its database while it loads a store, and takes the store's lock only after recovery.

    Raises:
        StoreLockedError: another process has the queues open.
        ForkedStoreError: see `QueueKind.refuse_in_fork`.
    """
    for kind in kinds:
        kind.refuse_in_fork()
    if locks.owner_is_live(layout.own(own.FOLLOWER_NAME)):
        return
    for kind in kinds:
        if kind.is_held():
            raise StoreLockedError(
                f"{kind.folder}: another process has these {kind.name} queues open to write, such as a broker "
                "that is starting. Stop it, or wait for it"
            )


def _in_order(wanted: Sequence[str], present: Sequence[str]) -> list[str]:
    return [*wanted, *(name for name in present if name not in wanted)]
