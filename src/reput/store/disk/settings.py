"""The settings of a job: from the configuration, else from the store's files, else RocketMQ's defaults.

Assumed values are kept for reports, since a wrong queue file size would make a store that RocketMQ refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reput.config import StoreConfig, parse_delay_levels
from reput.dispatch import bloom
from reput.dispatch.bloom import BloomFilter
from reput.errors import ConfigError
from reput.formats.index import index_file
from reput.formats.log import record
from reput.formats.queue import batch_consume_queue, consume_queue
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue_ext import DEFAULT_FILE_SIZE as DEFAULT_EXT_FILE_SIZE
from reput.formats.queue.consume_queue_ext import END_ROOM, MAX_BITMAP_SIZE, UNIT_SIZE
from reput.formats.queue.queue_types import UNKNOWN_TYPES, QueueTypes
from reput.index.files import IndexFileOnDisk, found_slots_and_items
from reput.log.read.decode import DecodeSettings
from reput.queue.ext import found_ext_file_size
from reput.queue.files import QUEUES_ASKED, found_file_size, some_queues
from reput.queue.placement import EVERYWHERE, QueuePlacement
from reput.store.disk.index_kinds import IndexChoice
from reput.store.disk.kinds import kinds_beside
from reput.store.disk.layout import StoreLayout
from reput.store.disk.placement import FoundPlacement
from reput.store.disk.queue_types import queue_types
from reput.store.metadata.topics import Topics

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Sizes in bytes, delays in ms (level 1 first); `assumed` lists the values that no setting gives.

    `notes` name files that cannot be read. `ext_file_size` is None if the queues have no ConsumeQueueExt.
    `calc_bitmaps`: its units get the bits, by `bloom`, of the registered SQL92 filters that match. `indexes`: the
    kinds of index that are extended, and the one that answers. `placement`: which kinds of queues hold which.
    """

    queue_file_size: int
    ext_file_size: int | None
    index_slots: int
    index_items: int
    delays_ms: tuple[int, ...]
    crc_check: int
    index_enabled: bool
    indexes: IndexChoice
    bloom: BloomFilter
    calc_bitmaps: bool
    assumed: tuple[str, ...]
    batch_queue_file_size: int = batch_consume_queue.DEFAULT_FILE_SIZE
    types: QueueTypes = UNKNOWN_TYPES
    multi_dispatch: bool = True
    notes: tuple[str, ...] = ()
    placement: QueuePlacement = EVERYWHERE

    def decoding(self, tag_items: bool) -> DecodeSettings:
        """Return the settings for decoding the log."""
        return DecodeSettings(self.crc_check, tag_items, self.delays_ms, self.multi_dispatch)


def resolve_settings(
    layout: StoreLayout,
    config: StoreConfig,
    topics: Topics,
    index_files: Sequence[IndexFileOnDisk],
    indexes: IndexChoice,
    placed: FoundPlacement,
    verify_crc: bool = True,
) -> StoreSettings:
    """Resolve the settings of a store; `StoreOnDisk.settings` calls this.

    Raises:
        ConfigError: a configured value is not of its kind, or a topic names an unknown type of queues.
    """
    types = queue_types(layout, topics)
    assumed: list[str] = []
    slots, items = _index_sizes(config, index_files, assumed)
    levels = config.message_delay_level
    if levels is None:
        levels = DEFAULT_DELAY_LEVELS
        assumed.append(f"messageDelayLevel={levels} (RocketMQ's default)")
    bloom_filter = BloomFilter(
        config.max_error_rate_of_bloom_filter or bloom.DEFAULT_ERROR_PERCENT,
        config.expect_consumer_num_use_filter or bloom.DEFAULT_EXPECTED,
    )
    if bloom_filter.size > MAX_BITMAP_SIZE:
        raise ConfigError(
            f"expectConsumerNumUseFilter={bloom_filter.expected}: its bitmaps would have {bloom_filter.size} bytes, "
            f"{MAX_BITMAP_SIZE} are allowed"
        )
    check = record.CHECK_PROPERTY if config.force_verify_prop_crc else record.CHECK_BODY
    check = check if verify_crc else record.CHECK_NONE
    return StoreSettings(
        queue_file_size=_queue_file_size(layout, config, assumed),
        ext_file_size=_ext_file_size(layout, config, bloom_filter, assumed),
        index_slots=slots,
        index_items=items,
        delays_ms=tuple(parse_delay_levels(levels)),
        # In a queue of batches the number of a single message counts all messages of the batches before it.
        crc_check=check if types.batch else check | record.STRICT_OFFSETS,
        index_enabled=config.message_index_enable is not False,
        indexes=indexes,
        bloom=bloom_filter,
        calc_bitmaps=config.enable_calc_filter_bit_map is True,
        # After the sizes above: the order of `assumed`.
        batch_queue_file_size=_batch_queue_file_size(layout, config, types, assumed),
        types=types,
        placement=placed.placement,
        # A record has offsets in further queues only if the broker gave them; the setting can only leave them out.
        multi_dispatch=config.enable_multi_dispatch is not False,
        assumed=(*assumed, *placed.assumed),
        notes=tuple(topics.notes),
    )


def _batch_queue_file_size(layout: StoreLayout, config: StoreConfig, types: QueueTypes, assumed: list[str]) -> int:
    configured, setting = config.mapper_file_size_batch_consume_queue, "mapper_file_size_batch_consume_queue"
    name = "mapperFileSizeBatchConsumeQueue"
    if configured is not None:
        size, source = configured, "configured"
    else:
        kind = next(kind for kind in kinds_beside(layout) if kind.size_setting == setting)
        likely = kind.found_file_size()
        size = likely or batch_consume_queue.DEFAULT_FILE_SIZE
        source = "as the present batch queue files have" if likely else "RocketMQ's default"
        if types.batch:
            assumed.append(f"{name}={size} ({source})")
    if size % BATCH_ENTRY_SIZE:
        raise ConfigError(f"{name}={size} ({source}): must be a multiple of {BATCH_ENTRY_SIZE}, the size of an entry")
    return size


def _queue_file_size(layout: StoreLayout, config: StoreConfig, assumed: list[str]) -> int:
    configured = config.mapped_file_size_consume_queue
    if configured is not None:
        size = consume_queue.file_size_in_use(configured)
        if size != configured:
            assumed.append(f"mappedFileSizeConsumeQueue={configured} counts as {size}, whole entries, as in RocketMQ")
        return size
    likely = found_file_size(some_queues(layout.consume_queue, QUEUES_ASKED))
    assumed.append(f"mappedFileSizeConsumeQueue={likely.size} ({likely.source})")
    if likely.odd:
        assumed.append(likely.odd)
    return likely.size


def _ext_file_size(
    layout: StoreLayout, config: StoreConfig, bloom_filter: BloomFilter, assumed: list[str]
) -> int | None:
    enabled = config.enable_consume_queue_ext
    if enabled is False:
        return None
    likely = found_ext_file_size(some_queues(layout.consume_queue_ext, QUEUES_ASKED))
    if enabled is None:
        if likely is None:
            return None
        assumed.append(f"enableConsumeQueueExt=true ({layout.consume_queue_ext} has files)")
    size = config.mapped_file_size_consume_queue_ext
    if size is None:
        size, source = (
            (likely, "as the present ext files have") if likely else (DEFAULT_EXT_FILE_SIZE, "RocketMQ's default")
        )
        assumed.append(f"mappedFileSizeConsumeQueueExt={size} ({source})")
    lowest = UNIT_SIZE + bloom_filter.size + END_ROOM
    if size < lowest:
        raise ConfigError(
            f"mappedFileSizeConsumeQueueExt={size}: a unit with its bitmap has room from {lowest} bytes on. Set "
            "it to what the broker has"
        )
    return size


def known_index_sizes(config: StoreConfig, files: Sequence[IndexFileOnDisk]) -> tuple[int, int] | None:
    """Return the slots and items of a store's IndexFiles: as configured, or as the files show; None if neither."""
    if config.max_hash_slot_num is not None and config.max_index_num is not None:
        return config.max_hash_slot_num, config.max_index_num
    shown = _shown_index_sizes(files)
    return None if shown is None else _configured_or(config, *shown)


def _configured_or(config: StoreConfig, slots: int, items: int) -> tuple[int, int]:
    if config.max_hash_slot_num is not None:
        slots = config.max_hash_slot_num
    return slots, items if config.max_index_num is None else config.max_index_num


def _shown_index_sizes(files: Sequence[IndexFileOnDisk]) -> tuple[int, int] | None:
    # A file that was cut shows fewer items than it was made for, so those of the commonest length are asked first.
    lengths = Counter(file.size for file in files)
    likely = sorted(files, key=lambda file: -lengths[file.size])
    return next((sizes for file in likely if (sizes := found_slots_and_items(file))), None)


def _index_sizes(config: StoreConfig, files: Sequence[IndexFileOnDisk], assumed: list[str]) -> tuple[int, int]:
    known = known_index_sizes(config, files)
    source = "RocketMQ's default" if known is None else "as the present IndexFiles have"
    slots, items = known or _configured_or(config, index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS)
    if config.max_hash_slot_num is None:
        assumed.append(f"maxHashSlotNum={slots} ({source})")
    if config.max_index_num is None:
        assumed.append(f"maxIndexNum={items} ({source})")
    return slots, items
