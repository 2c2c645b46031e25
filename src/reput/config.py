"""Settings of a store, under RocketMQ's names in snake_case.

A setting that is not given is None. `reput.store.disk.settings` then takes the value that the files show, or RocketMQ's
default, and remembers which. `StoreConfig.from_file` reads RocketMQ's own broker.conf (Java properties).

Source: `MessageStoreConfig`, `BrokerConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path

from reput.errors import ConfigError
from reput.times import UNITS_MS

DEFAULT_TOPIC_QUEUES = 4
"""The queues of a topic that is made without their number, as RocketMQ's producers ask (`DefaultMQProducer`)."""
FOUND_IN_STORE = frozenset(
    {
        "timerWheelEnable", "timerWheelSnapshotFlush", "timerPrecisionMs", "timerRocksDBEnable", "transRocksDBEnable",
        "transWriteOriginTransHalfEnable", "popConsumerKVServiceInit", "popConsumerKVServiceEnable",
        "popConsumerFSServiceInit", "appendTopicForTimerDeleteKey", "maxRocksDBIndexQueryDays",
    }
)  # fmt: skip
"""RocketMQ's settings that concern the store, and need not be given: reput detects it from the files."""
_CONFIG_LIMIT = 1 << 20
_TRUE, _FALSE = "true", "false"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Settings of a store under RocketMQ's names, in snake_case. None means that the setting is not given.

    A setting that is not given has the value that the store's files show, or RocketMQ's default.
    """

    store_path_root_dir: str | None = None
    """The store's folder. A broker.conf of another store is refused."""
    store_path_commit_log: str | None = None
    """The folder of the log, or several with commas between. The default is `commitlog` in the store."""
    read_only_commit_log_store_paths: str | None = None
    """Further folders of a log over several paths, with commas between, to which RocketMQ adds no file."""
    mapped_file_size_commit_log: int | None = None
    """Size of a log file (bytes)."""
    mapped_file_size_consume_queue: int | None = None
    """Size of a queue file (bytes), rounded up to whole entries of 20 bytes."""
    mapper_file_size_batch_consume_queue: int | None = None
    """Size of a file of a queue of batches (bytes), whole entries of 46 bytes. RocketMQ spells the name this way."""
    mapped_file_size_consume_queue_ext: int | None = None
    """Size of a ConsumeQueueExt file (bytes)."""
    max_hash_slot_num: int | None = None
    """Slots of an IndexFile."""
    max_index_num: int | None = None
    """Items of an IndexFile."""
    message_delay_level: str | None = None
    """Delays of the levels of delayed messages, level 1 first."""
    message_index_enable: bool | None = None
    """Give messages index items."""
    index_rocksdb_enable: bool | None = None
    """Keep an index by key in RocksDB (`rocksdbstore`)."""
    index_file_write_enable: bool | None = None
    """Extend the IndexFiles."""
    index_file_read_enable: bool | None = None
    """Look for keys in the IndexFiles. If false, the index in RocksDB answers."""
    force_verify_prop_crc: bool | None = None
    """Check the CRC of the whole record instead of the body's."""
    check_crc_on_recover: bool | None = None
    """Check CRCs in the part of the log that is decoded when a store is opened."""
    store_type: str | None = None
    """Kind of queues of a new store: `default` (files) or `defaultRocksDB`."""
    enable_consume_queue_ext: bool | None = None
    """Give queues a ConsumeQueueExt."""
    enable_calc_filter_bit_map: bool | None = None
    """Give ext units the bitmaps of registered filters."""
    max_error_rate_of_bloom_filter: int | None = None
    """Error rate of those bitmaps (percent)."""
    expect_consumer_num_use_filter: int | None = None
    """Number of consumers that the bitmaps are made for."""
    rocksdb_cq_double_write_enable: bool | None = None
    """Keep queues both in files and in RocksDB."""
    use_single_rocksdb_for_all_configs: bool | None = None
    """With `storeType=defaultRocksDB` topics, groups and offsets are in one RocksDB."""
    config_manager_version: str | None = None
    """`v2`: topics, groups and offsets are in a RocksDB of the second form."""
    use_separate_store_path_for_rocksdb_cq: bool | None = None
    """Keep the RocksDB of queues in `consumequeue_rocksdb`, not in `consumequeue`."""
    combine_cq_loading_cq_types: str | None = None
    """With double write: the store types whose queues are written, with ";" between."""
    combine_cq_prefer_cq_type: str | None = None
    """With double write: the store type whose queues answer reads."""
    combine_assign_offset_cq_type: str | None = None
    """With double write: the store type whose queues give queue offsets."""
    combine_cq_use_rocksdb_for_lmq: bool | None = None
    """With double write: keep light queues in RocksDB alone."""
    rocksdb_cq_selective_double_write_enable: bool | None = None
    """With double write: keep only topics of type LITE in RocksDB, too; the others are in files alone."""
    enable_lmq: bool | None = None
    """Let a put name light queues (INNER_MULTI_DISPATCH)."""
    enable_multi_dispatch: bool | None = None
    """Give messages entries in the light queues that they name."""
    min_lite_ttl: int | None = None
    """Age below which no lite topic expires (ms)."""
    enable_dledger_commit_log: bool | None = None
    """True: the log is DLedger's, which reput refuses. False: a DLedger folder is out of use. RocketMQ spells it so."""

    broker_name: str | None = None
    """`reput serve`: the broker's name in routes."""
    broker_cluster_name: str | None = None
    """`reput serve`: the name of its cluster."""
    auto_create_topic_enable: bool | None = None
    """`reput serve`: let a send make a topic that is not there."""
    auto_create_subscription_group: bool | None = None
    """`reput serve`: let a consumer make its group."""
    broker_ip1: str | None = None
    """The broker's address in records (IPv4 or IPv6)."""
    listen_port: int | None = None
    """The broker's port in records."""
    max_message_size: int | None = None
    """Largest body (bytes)."""
    auto_message_version_on_topic_len: bool | None = None
    """Give a record version 2 if its topic has more than 127 bytes. If false, such a topic is refused."""
    enabled_append_prop_crc: bool | None = None
    """Append the CRC of the whole record as a property."""
    flush_disk_type: str | None = None
    """ASYNC_FLUSH, or SYNC_FLUSH: a put waits until it is durable."""
    flush_interval_commit_log: int | None = None
    """Time between flushes (ms)."""
    flush_commit_log_least_pages: int | None = None
    """Fewest pages (4,096 bytes) to flush."""
    flush_commit_log_thorough_interval: int | None = None
    """Time after which a flush also takes fewer pages (ms)."""
    sync_flush_timeout: int | None = None
    """Longest wait of a put with SYNC_FLUSH (ms). After it the status is FLUSH_DISK_TIMEOUT."""
    transient_store_pool_enable: bool | None = None
    """Put messages into a buffer in memory first, and write them to the file in steps."""
    commit_interval_commit_log: int | None = None
    """Time between those steps (ms)."""
    commit_commit_log_least_pages: int | None = None
    """Fewest pages (4,096 bytes) to write in a step."""
    commit_commit_log_thorough_interval: int | None = None
    """Time after which a step also takes fewer pages (ms)."""
    delete_when: str | None = None
    """Hours of the local day at which expired log files are deleted, with ";" between. Turns deletion on."""
    file_reserved_time: int | None = None
    """Age at which a log file expires (hours). Turns deletion on."""
    disk_max_used_space_ratio: int | None = None
    """Disk use over which expired files are deleted at any hour (percent, 10 to 95). Turns deletion on."""
    disk_space_clean_forcibly_ratio: int | None = None
    """Disk use over which files of any age are deleted (percent, 30 to 85). Turns deletion on."""
    disk_space_warning_level_ratio: int | None = None
    """Disk use over which puts are refused (percent, 35 to 90)."""
    clean_file_forcibly_enable: bool | None = None
    """Delete files of any age on a nearly full disk, if deletion is on. `true` turns deletion on."""
    delete_file_batch_max: int | None = None
    """The most log files that one run deletes."""
    clean_resource_interval: int | None = None
    """Time between runs of housekeeping (ms)."""
    flush_consumer_offset_interval: int | None = None
    """Time after which changed consumer progress is written (ms)."""
    consumer_offset_update_version_step: int | None = None
    """Number of commits after which the progress file gets a new data version."""
    transaction_time_out: int | None = None
    """`reput serve`: age from which a producer is asked about the end of a transaction (ms)."""
    transaction_check_interval: int | None = None
    """`reput serve`: time between two rounds of such questions (ms)."""
    transaction_check_max: int | None = None
    """`reput serve`: number of questions after which a transaction is given up."""
    timer_max_delay_sec: int | None = None
    """`reput serve`: longest time ahead of a timer message (s)."""
    recall_message_enable: bool | None = None
    """`reput serve`: let senders recall timer messages."""

    max_decoded_body_size: int | None = None
    """reput's own: the most bytes that a compressed body may expand to when it is read (64 MiB)."""
    tail_max_entries: int | None = None
    """reput's own: the number of messages without durable indexes at which a put waits."""
    delete_expired: bool | None = None
    """reput's own: delete expired log files while a store is open. None: the other settings decide."""
    force_setting: bool | None = None
    """reput's own: continue with a given setting that contradicts the store's files."""
    sources: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    """The source of each given setting: the path of a broker.conf, or `--set`."""

    @property
    def asks_to_delete(self) -> bool:
        """True if a program that has the store open deletes expired log files by itself.

        `delete_expired` decides. If it is not given, each setting that says when to delete log files turns deletion on.
        """
        if self.delete_expired is not None:
            return self.delete_expired
        when = (self.delete_when, self.file_reserved_time, self.disk_max_used_space_ratio)
        return self.asks_to_delete_forcibly or any(value is not None for value in when)

    @property
    def asks_to_delete_forcibly(self) -> bool:
        """True if log files of any age are deleted on a nearly full disk."""
        if self.clean_file_forcibly_enable is not None:
            return self.clean_file_forcibly_enable
        return self.disk_space_clean_forcibly_ratio is not None

    @classmethod
    def from_file(cls, path: Path | str) -> StoreConfig:
        """Read a broker.conf. The settings then have RocketMQ's deletion policy, its defaults included.

        Args:
            path: The file, Java properties as RocketMQ reads them.

        Raises:
            ConfigError: The file cannot be read, or a value is not of its kind.
        """
        try:
            data = Path(path).read_bytes()[: _CONFIG_LIMIT + 1]
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the configuration: {error.strerror}") from error
        if b"\0" in data:
            raise ConfigError(f"{path}: it has a zero byte, so it is not a broker.conf")
        if len(data) > _CONFIG_LIMIT:
            raise ConfigError(f"{path}: over {_CONFIG_LIMIT} bytes; this is not a broker.conf")
        properties = {"deleteExpired": _TRUE, "cleanFileForciblyEnable": _TRUE}
        properties |= parse_properties(data.decode("utf-8", "replace"))
        return cls.from_properties(properties, str(path))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], where: str = "settings") -> StoreConfig:
        """Make settings from RocketMQ's names. Unknown names are ignored, as RocketMQ does.

        Args:
            properties: Values by RocketMQ's names.
            where: The source that an error names.

        Raises:
            ConfigError: A value is not of its kind.
        """
        values: dict[str, object] = {}
        for name, text in properties.items():
            field = _FIELDS.get(name)
            if field is not None:
                values[field] = _parse(name, text.strip(), _KINDS[field], where)
        return cls(**values, sources=dict.fromkeys(values, where))  # type: ignore[arg-type]

    def updated(self, assignments: Iterable[str]) -> StoreConfig:
        """Return these settings with `NAME=VALUE` assignments (RocketMQ's names) on top.

        Args:
            assignments: The assignments, as `--set` takes them.

        Raises:
            ConfigError: An assignment is malformed, or no such setting is known.
        """
        properties = {}
        for assignment in assignments:
            name, separator, value = assignment.partition("=")
            if not separator:
                raise ConfigError(f"--set {assignment}: give NAME=VALUE, such as mappedFileSizeConsumeQueue=6000000")
            if name.strip() not in _FIELDS:
                raise ConfigError(f"--set {assignment}: {_unknown(name.strip())}")
            properties[name.strip()] = value
        return self.with_given(self.from_properties(properties, "--set"))

    def with_given(self, other: StoreConfig) -> StoreConfig:
        """Return these settings with those that `other` gives on top."""
        given = {f.name: v for f in fields(other) if (v := getattr(other, f.name)) is not None}
        sources = {name: source for name, source in (self.sources or {}).items() if name not in given}
        return replace(self, **{**given, "sources": sources | dict(other.sources or {})})

    def given(self, name: str) -> str:
        """Describe a setting as it was given: RocketMQ's name, the value, and where it comes from."""
        source, value = (self.sources or {}).get(name, "the configuration"), getattr(self, name)
        text = str(value).lower() if isinstance(value, bool) else value
        return f"{_NAMES[name]}={text} (from {source})"


def _unknown(name: str) -> str:
    """Return a hint for a name that is no setting: similar names, or where all are listed."""
    folded = {known.lower(): known for known in sorted(_FIELDS)}
    near = [folded[found] for found in get_close_matches(name.lower(), folded, n=3, cutoff=0.7)]
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "the page Configuration of reput's documentation lists them"
    )
    return f"no setting of this name is used here; {hint}"


def deletion_properties(config: StoreConfig) -> dict[str, str]:
    """Return the given settings of log file deletion, under RocketMQ's names."""
    given = {name: getattr(config, field) for name, field in _FIELDS.items() if field in _OF_DELETION}
    return {name: str(value).lower() for name, value in given.items() if value is not None}


def rocketmq_names() -> dict[str, str]:
    """Return RocketMQ's name of each setting, by its name here, in the order of `StoreConfig`."""
    return {field.name: _NAMES[field.name] for field in fields(StoreConfig) if field.name not in _UNNAMED}


def setting_names() -> list[str]:
    """List the settings that reput knows, under RocketMQ's names."""
    return sorted(_FIELDS)


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


_UNNAMED = frozenset({"sources"})
_FIELDS = {_camel(field.name): field.name for field in fields(StoreConfig) if field.name not in _UNNAMED}
# The rule above does not make these capitals.
_FIELDS["brokerIP1"] = _FIELDS.pop("brokerIp1")
_FIELDS["forceVerifyPropCRC"] = _FIELDS.pop("forceVerifyPropCrc")
_FIELDS["checkCRCOnRecover"] = _FIELDS.pop("checkCrcOnRecover")
_FIELDS["enabledAppendPropCRC"] = _FIELDS.pop("enabledAppendPropCrc")
_FIELDS["rocksdbCQDoubleWriteEnable"] = _FIELDS.pop("rocksdbCqDoubleWriteEnable")
_FIELDS["useSingleRocksDBForAllConfigs"] = _FIELDS.pop("useSingleRocksdbForAllConfigs")
_FIELDS["indexRocksDBEnable"] = _FIELDS.pop("indexRocksdbEnable")
_FIELDS["useSeparateStorePathForRocksdbCQ"] = _FIELDS.pop("useSeparateStorePathForRocksdbCq")
_FIELDS["combineCQLoadingCQTypes"] = _FIELDS.pop("combineCqLoadingCqTypes")
_FIELDS["combineCQPreferCQType"] = _FIELDS.pop("combineCqPreferCqType")
_FIELDS["combineAssignOffsetCQType"] = _FIELDS.pop("combineAssignOffsetCqType")
_FIELDS["combineCQUseRocksdbForLmq"] = _FIELDS.pop("combineCqUseRocksdbForLmq")
_FIELDS["rocksdbCQSelectiveDoubleWriteEnable"] = _FIELDS.pop("rocksdbCqSelectiveDoubleWriteEnable")
_FIELDS["minLiteTTl"] = _FIELDS.pop("minLiteTtl")
_FIELDS["enableDLegerCommitLog"] = _FIELDS.pop("enableDledgerCommitLog")
_OF_DELETION = frozenset(
    {
        "delete_expired", "delete_when", "file_reserved_time", "disk_max_used_space_ratio",
        "disk_space_clean_forcibly_ratio", "clean_file_forcibly_enable", "delete_file_batch_max",
    }
)  # fmt: skip
_NAMES = {field: name for name, field in _FIELDS.items()}
# 0 has a meaning in these settings: at once, any number, or the lowest value.
_MAY_BE_ZERO = frozenset(
    {
        "flushCommitLogLeastPages", "flushCommitLogThoroughInterval", "commitCommitLogLeastPages",
        "commitCommitLogThoroughInterval", "syncFlushTimeout", "fileReservedTime", "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio", "minLiteTTl",
    }
)  # fmt: skip
_KINDS = {field.name: str(field.type).split(" ")[0] for field in fields(StoreConfig)}


def _parse(name: str, text: str, kind: str, where: str) -> object:
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() not in (_TRUE, _FALSE):
            raise ConfigError(f"{where}: {name}={text}: true or false is needed")
        return text.lower() == _TRUE
    lowest = 0 if name in _MAY_BE_ZERO else 1
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < lowest:
        raise ConfigError(f"{where}: {name}={text}: a whole number from {lowest} on is needed")
    return int(text)


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java's properties format as broker.conf uses it: comments, `=` or `:`, continued lines, escapes."""
    properties: dict[str, str] = {}
    pending = ""
    # Java ends lines only at these characters. Python's splitlines also cuts at others.
    parts = re.split(r"\r\n|\n|\r", text)
    for number, part in enumerate(parts):
        line = pending + part.lstrip(" \t\f")
        goes_on = bool(pending)
        pending = ""
        if not line or (line[0] in "#!" and not goes_on):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending = line[:-1]
            if number < len(parts) - 1:
                continue
            line = pending
        # Java's white space here is these three characters, and no other of Unicode's.
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        if match and line:
            properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text, flags=re.DOTALL)


def parse_delay_levels(text: str) -> list[int]:
    """Delays in milliseconds of `messageDelayLevel` ("1s 5s 10s ..."), the first is level 1.

    Raises:
        ConfigError: a level is no number with one of the units s, m, h and d.
    """
    delays = []
    for level in text.split():
        match = re.fullmatch(r"(\d{1,9})([smhd])", level)
        if match is None:
            raise ConfigError(f"messageDelayLevel: {level!r} is no delay; write levels like 1s 5m 2h")
        delays.append(int(match[1]) * UNITS_MS[match[2]])
    return delays
