"""The kinds of queues that the settings ask for, as RocketMQ chooses them."""

from __future__ import annotations

from collections.abc import Sequence

from reput.config import StoreConfig, rocketmq_names
from reput.errors import ConfigError, UnsupportedStoreError
from reput.formats.queue.queue_kinds import (
    DEFAULT_STORE_TYPE,
    DOUBLE_WRITE,
    LIGHT_SETTING,
    PART_KIND,
    SELECTIVE_SETTING,
    STORE_TYPES,
    kind_of_store_type,
)


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
    given = (config.combine_cq_loading_cq_types or ";".join(STORE_TYPES)).split(";")
    loaded = [kind for kind in DOUBLE_WRITE if kind in set(map(kind_of_store_type, given))]
    reads, numbers = (
        _loaded_kind(config, name, loaded) for name in ("combine_cq_prefer_cq_type", "combine_assign_offset_cq_type")
    )
    light, selective = config.combine_cq_use_rocksdb_for_lmq, config.rocksdb_cq_selective_double_write_enable
    if light and PART_KIND not in loaded:
        raise ConfigError(f"{LIGHT_SETTING}=true: combineCQLoadingCQTypes lacks RocksDB")
    if (light or selective) and numbers == PART_KIND:
        text = config.given("combine_assign_offset_cq_type")
        raise ConfigError(f"{text}: RocketMQ refuses that with light queues or LITE topics alone in RocksDB")
    if selective and reads == PART_KIND:
        text = config.given("combine_cq_prefer_cq_type")
        raise ConfigError(f"{text}: RocketMQ refuses that with {SELECTIVE_SETTING}=true")
    return [reads, *(kind for kind in loaded if kind != reads)]


def _loaded_kind(config: StoreConfig, name: str, loaded: Sequence[str]) -> str:
    """Return the kind that a setting names, which must be loaded."""
    value = getattr(config, name) or DEFAULT_STORE_TYPE
    kind = kind_of_store_type(value) or ""
    if kind not in loaded:
        own = "" if getattr(config, name) else " (the default)"
        loads = config.combine_cq_loading_cq_types or f"{';'.join(STORE_TYPES)} (the default)"
        raise ConfigError(
            f"{rocketmq_names()[name]}={value}{own}: combineCQLoadingCQTypes={loads} does not load it, and RocketMQ "
            "does not start"
        )
    return kind
