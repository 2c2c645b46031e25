"""The switches of broker.conf that make kinds of stores: one list for reput's settings, and for RocketMQ's options.

config_of("rocksdb", CONFIG)        these settings, and those that make the kind
lines_of("lmq-rocksdb")             the lines of a broker.conf
words_of("double")                  the options of a program of the peer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.config import StoreConfig

_ROCKSDB = ("storeType=defaultRocksDB",)
_SEPARATE = ("useSeparateStorePathForRocksdbCQ=true",)
_DOUBLE = ("rocksdbCQDoubleWriteEnable=true",)
_EXT = ("enableConsumeQueueExt=true",)
_LIGHT = ("enableLmq=true", "enableMultiDispatch=true")
_BOTH_INDEXES = ("indexRocksDBEnable=true",)
SWITCHES: dict[str, tuple[str, ...]] = {
    "file": (),
    "rocksdb": _ROCKSDB,
    "double": _DOUBLE,
    "separate": (*_ROCKSDB, *_SEPARATE),
    "separate-double": (*_DOUBLE, *_SEPARATE),
    "ext": _EXT,
    "ext-double": (*_EXT, *_DOUBLE),
    "lmq": _LIGHT,
    "lmq-rocksdb": (*_LIGHT, *_DOUBLE, "combineCQUseRocksdbForLmq=true"),
    "selective": (*_LIGHT, *_DOUBLE, "rocksdbCQSelectiveDoubleWriteEnable=true"),
    "index-both": _BOTH_INDEXES,
    "index-rocksdb": (*_BOTH_INDEXES, "indexFileWriteEnable=false", "indexFileReadEnable=false"),
    "config-v1-single": (*_ROCKSDB, "useSingleRocksDBForAllConfigs=true"),
    "config-v2": (*_ROCKSDB, "configManagerVersion=v2"),
    "pending-rocksdb": ("timerRocksDBEnable=true", "transRocksDBEnable=true"),
}
"""The lines of a broker.conf by the name of the kind. Sizes are the user's, as they differ."""


def lines_of(name: str) -> str:
    """Return the switches as lines of a broker.conf."""
    return "".join(f"{line}\n" for line in SWITCHES[name])


def words_of(name: str) -> list[str]:
    """Return the switches as options of a program of the peer."""
    return [word for line in SWITCHES[name] for word in ("--set", line)]


def config_of(name: str, base: StoreConfig) -> StoreConfig:
    """Return settings with the switches of a kind."""
    return base.updated(SWITCHES[name])
