#!/usr/bin/env python
"""Writes the tables of docs/configuration.md from the code: every setting of a store, every option of a job.

    python scripts/configuration.py

Meanings are the docstrings of `StoreConfig`'s fields, defaults are the code's. `ARGUMENTS` says which argument of
Python, option of the command line and option of `format("rocketmq")` are one setting; a test holds it complete.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reput.broker.services import timers, transactions
from reput.broker.state.identity import DEFAULT_CLUSTER, DEFAULT_NAME
from reput.config import StoreConfig, rocketmq_names
from reput.dispatch import bloom
from reput.formats.index import index_file
from reput.formats.log.body import MAX_DECODED_BODY_SIZE
from reput.formats.log.record import LOCALHOST
from reput.formats.queue import batch_consume_queue, consume_queue, consume_queue_ext, queue_kinds
from reput.log.append.settings import LogSettings
from reput.queue import tail
from reput.store.disk import settings
from reput.store.progress import progress
from reput.store.read import lite_topics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
BEGIN, END = "<!-- made by scripts/configuration.py -->\n", "<!-- end of what it made -->\n"
_BY_FILES = "as the files show, else "
DEFAULTS = {
    "mapped_file_size_commit_log": f"{_BY_FILES}{LogSettings().mapped_file_size_commit_log}",
    "mapped_file_size_consume_queue": f"{_BY_FILES}{consume_queue.DEFAULT_FILE_SIZE}",
    "mapper_file_size_batch_consume_queue": f"{_BY_FILES}{batch_consume_queue.DEFAULT_FILE_SIZE}",
    "mapped_file_size_consume_queue_ext": f"{_BY_FILES}{consume_queue_ext.DEFAULT_FILE_SIZE}",
    "max_hash_slot_num": f"{_BY_FILES}{index_file.DEFAULT_SLOTS}",
    "max_index_num": f"{_BY_FILES}{index_file.DEFAULT_ITEMS}",
    "message_delay_level": settings.DEFAULT_DELAY_LEVELS,
    "message_index_enable": "true",
    "index_rocksdb_enable": "as the files show",
    "index_file_write_enable": "as the files show",
    "index_file_read_enable": "as the files show",
    "force_verify_prop_crc": "false",
    "check_crc_on_recover": "true",
    "store_type": f"as the files show, else {queue_kinds.DEFAULT_STORE_TYPE}",
    "enable_consume_queue_ext": "as the files show",
    "enable_calc_filter_bit_map": "false",
    "max_error_rate_of_bloom_filter": str(bloom.DEFAULT_ERROR_PERCENT),
    "expect_consumer_num_use_filter": str(bloom.DEFAULT_EXPECTED),
    "use_single_rocksdb_for_all_configs": "as the files show",
    "config_manager_version": "as the files show, else v1",
    "rocksdb_cq_double_write_enable": "as the files show",
    "use_separate_store_path_for_rocksdb_cq": "as the files show",
    "combine_cq_loading_cq_types": "default;defaultRocksDB",
    "combine_cq_prefer_cq_type": "default",
    "combine_assign_offset_cq_type": "default",
    "combine_cq_use_rocksdb_for_lmq": "as the files show",
    "rocksdb_cq_selective_double_write_enable": "as the files show",
    "min_lite_ttl": str(lite_topics.DEFAULT_MIN_TTL_MS),
    "enable_multi_dispatch": "true",
    "enable_dledger_commit_log": "false",
    "broker_name": DEFAULT_NAME,
    "broker_cluster_name": DEFAULT_CLUSTER,
    "auto_create_topic_enable": "true",
    "auto_create_subscription_group": "true",
    "broker_ip1": ".".join(map(str, LOCALHOST.address)),
    "listen_port": str(LOCALHOST.port),
    "flush_consumer_offset_interval": str(progress.PERSIST_INTERVAL_MS),
    "transaction_time_out": str(transactions.DEFAULT_TIME_OUT_MS),
    "transaction_check_interval": str(transactions.DEFAULT_CHECK_INTERVAL_MS),
    "transaction_check_max": str(transactions.DEFAULT_CHECK_MAX),
    "timer_max_delay_sec": str(timers.DEFAULT_MAX_DELAY_S),
    "recall_message_enable": "false",
    "consumer_offset_update_version_step": str(progress.VERSION_STEP),
    "max_decoded_body_size": str(MAX_DECODED_BODY_SIZE),
    "tail_max_entries": str(tail.TAIL_MAX_ENTRIES),
    "clean_file_forcibly_enable": "true with a broker.conf, else false",
    "delete_expired": "true with a broker.conf, else as the other settings say",
    "force_setting": "false",
}
"""Defaults that no dataclass of the log's settings has."""
FLAGS = {
    "store_path_root_dir": "STORE",
    "flush_disk_type": "`--sync`",
    "delete_expired": "`--delete-expired`",
    "force_setting": "`--force-setting`",
}
"""Options of their own that set these, beside `--set`."""


class Argument(NamedTuple):
    """One setting: its names in Python, on the command line and for Spark, its default, and its meaning."""

    python: str
    cli: str
    spark: str
    default: str
    meaning: str


STORE_ARGUMENTS = (
    Argument("path", "STORE", "path, storePath", "", "the store's root folder"),
    Argument("other", "OTHER", "", "none", "`diff`: another store"),
    Argument("config", "--config, --set", "config", "none", "a broker.conf, or settings of the table above"),
    Argument("force_setting", "--force-setting", "", "off", "continue with a setting that contradicts the files"),
    Argument("create", "--create", "", "off", "`MessageStore.open`, `put`: make a new store"),
    Argument("read_only", "", "", "off", "`MessageStore.open`: only read"),
    Argument("limits", "", "", "none", "`MessageStore.open`: bounds on what one pull returns (`PullLimits`)"),
    Argument("delete_expired", "--delete-expired", "", "by the settings", "delete expired log files"),
    Argument("manual", "", "", "off", "`delete_expired`: at any hour"),
    Argument("follow", "--follow", "", "off", "`MessageStore.open`, `serve`: start a follower; `get`: wait"),
    Argument("reput", "--reput", "", "on", "`close`, `put`: catch up the indexes at the end"),
)
JOB_ARGUMENTS = (
    Argument("spark", "--spark", "", "threads, then Spark", "a session, or False for no Spark; commands: `--no-spark`"),
    Argument("master", "--master", "", "with `--spark` local[*]", "the URL of a Spark master, which runs all tasks"),
    Argument("listener", "", "", "none", "an object that gets progress, notes and warnings"),
    Argument("on_progress", "", "", "none", "`follow`: a function that is called after each batch"),
    Argument("", "--quiet", "", "off", "no progress and no notes"),
    Argument("", "--dry-run", "", "off", "show what the command would do"),
    Argument("split_mb", "--split-mb", "", "128", "size of the ranges that tasks decode (MiB)"),
    Argument("verify_crc", "--verify-crc", "verifyCrc", "on", "check each body's CRC"),
    Argument("salvage", "--salvage", "", "off", "continue after damaged bytes, and list each gap"),
    Argument("only", "--only", "", "both", "`rebuild`: the queues alone, or the IndexFiles alone"),
    Argument("skip_topics", "--skip-topic", "", "none", "`rebuild`: all but these topics"),
    Argument("index_tags", "--index-tags", "", "auto", "`rebuild`: give tags index items"),
    Argument("empty_log", "--empty-log", "", "off", "`rebuild`: accept a log without a record"),
    Argument("to", "--to", "", "", "`convert`: the kind of queues"),
    Argument("index", "--index", "", "", "`convert`: the kind of index by key"),
    Argument("source", "--source", "", "log", "`convert`: what the queues are made from"),
    Argument("until_caught_up", "--until-caught-up", "", "off", "`follow`: end when nothing is left"),
    Argument(
        "max_bytes_per_trigger", "--max-bytes-per-trigger", "maxBytesPerTrigger", "2 GiB; 1 GiB in Spark",
        "the most bytes of log in a batch",
    ),
    Argument(
        "checkpoint_location", "--checkpoint-location", "checkpointLocation", "in the store",
        "the folder of Spark's own files",
    ),
    Argument("folder", "--folder", "readReport", "", "`export`: for the files; `read_report`: of the reports"),
)  # fmt: skip
MESSAGE_ARGUMENTS = (
    Argument("topics, topic", "--topic", "topic, subscribe", "all", "these topics, or the topic"),
    Argument("lite_topics", "", "liteTopic", "all", "`scan`: only these lite topics of the topic"),
    Argument("at_ms", "--at", "", "now", "`lite_topics`, `lite`: the time at which lite topics are expired or not"),
    Argument("", "--expired", "", "off", "`lite`: only lite topics that are expired at that time"),
    Argument("queue_ids", "", "", "", "`offsets_by_time`: a queue for each question, or one for all"),
    Argument("queue_id", "--queue-id", "assign", "all", "only these queues, or the queue"),
    Argument("offset", "--offset", "startingOffsets", "", "a queue offset"),
    Argument("begin", "", "", "", "`estimate`: the first queue offset"),
    Argument("end", "", "endingOffsets", "", "`estimate`: the queue offset after the last"),
    Argument("physical_offset", "--physical-offset", "", "", "a log offset"),
    Argument("", "--item", "", "", "`dump index`: the number of an item in its file"),
    Argument("since", "--since", "startingTimestamp", "all", "stored at this time or later"),
    Argument("until", "--until", "endingTimestamp", "all", "stored at this time or before (Spark: before this time)"),
    Argument("timestamp_ms", "--timestamp", "", "", "`offset_by_time`, `offset`: the time"),
    Argument("timestamps_ms", "", "", "", "`offsets_by_time`: a time for each question, or one for all"),
    Argument("boundary", "--boundary", "", "lower", "`offset_by_time`, `offset`: which message if none has this time"),
    Argument("keys, key", "--key", "keys", "all", "messages with this key or unique key; `put`: the message's keys"),
    Argument("unique_key", "--unique-key", "", "", "the unique key that a producer gave"),
    Argument("tags", "--tags", "filter.tag, subExpression", "all", "messages with one of these tags; `put`: the tag"),
    Argument("sql", "--sql", "filter.sql", "all", "messages whose properties match"),
    Argument("filter", "", "", "none", "calls of a store: tags as text, or a `SqlFilter`"),
    Argument("by_tag", "", "", "off", "`query_message`: the key is a tag; commands: `--tags`"),
    Argument("exact", "", "", "on", "`query_message`: compare the key with the record"),
    Argument("before", "--before", "", "none", "`query_message`, `query`: only before this log offset"),
    Argument("begin_ms", "", "", "none", "`query_message`: the old name of `since`"),
    Argument("end_ms", "", "", "none", "`query_message`: the old name of `until`"),
    Argument(
        "max_messages",
        "--max-messages",
        "",
        "32, 64 by key, all with `-f`",
        "the most messages; `dump`: the most records, entries or items, all by default; `pending`: the most rows",
    ),
    Argument("", "--max-topics", "", "100", "`lite`: the most rows"),
    Argument("", "", "maxOffsetsPerTrigger", "none", "a stream: the most messages of a micro-batch"),
    Argument("max_bytes", "", "", "by the limits", "`get_message`: the most bytes of records"),
    Argument("", "--id", "", "", "`query`: an offset message id"),
    Argument("columns", "--columns", "columns", "all", "only these columns"),
    Argument("schema", "", "schema", "native", "native, or kafka"),
    Argument("fail_on_data_loss", "", "failOnDataLoss", "on", "off: skip messages that are gone or damaged"),
    Argument("fail_on_missing_topic", "", "failOnMissingTopic", "on", "off: read without a topic that is missing"),
    Argument("message", "", "", "", "`put_message`: the message"),
    Argument("messages", "", "", "", "`put_messages`: messages, or Arrow columns"),
    Argument("sent", "", "", "", "`put_client_batch`: the batch, as a client has sent it"),
    Argument("body", "--body", "body", "decoded", "bodies decompressed, or as stored (raw); `Message`: the bytes"),
    Argument("", "", "maxDecodedBodySize", "64 MiB", "the most bytes that a body may expand to; else a setting"),
    Argument("properties", "--property", "", "none", "`Message`, `put`: properties"),
    Argument("flag", "", "", "0", "`Message`: the producer's flag"),
    Argument("sys_flag", "", "", "0", "`Message`: RocketMQ's flags, such as a compressed body"),
    Argument("born_timestamp", "", "", "now", "`Message`: the producer's time (ms)"),
    Argument("born_host", "", "", "127.0.0.1", "`Message`: the producer's address"),
    Argument("reconsume_times", "", "", "0", "`Message`: deliveries that failed"),
    Argument("prepared_transaction_offset", "", "", "0", "`Message`: log offset of the prepared message"),
    Argument("", "--json-lines", "", "off", "`put`: each line is a JSON object"),
    Argument("", "--skip-lines", "", "0", "`put`: lines that an earlier run has stored"),
    Argument("", "--any-topic", "", "off", "`put`: take topics whose names RocketMQ refuses"),
    Argument("", "--sync", "", "off", "`put`: flushDiskType=SYNC_FLUSH"),
)
PROGRESS_ARGUMENTS = (
    Argument("group", "--group", "", "all", "the consumer group"),
    Argument("from_group, to_group", "", "", "", "`clone_offsets`: the groups; commands: `--clone`"),
    Argument("", "--commit", "", "", "`progress`: `commit_offset`"),
    Argument("", "--reset-to", "", "", "`progress`: `reset_offset`"),
    Argument("", "--clone", "", "", "`progress`: `clone_offsets`"),
    Argument("", "--clean-group", "", "", "`progress`: `clean_offsets` of a group"),
    Argument("", "--clean-topic", "", "", "`progress`: `clean_offsets` in a topic"),
    Argument("arrived", "", "", "", "`on_arrival`: the function to call"),
    Argument("waiter", "", "", "", "`stop_waiting`: what `on_arrival` returned"),
    Argument("timeout_s", "", "", "", "`wait`: the longest wait (s)"),
)
OUTPUT_ARGUMENTS = (
    Argument("port", "--port", "", "9876; Python: a free one", "`serve`: the port; 0 takes any"),
    Argument("host", "--host", "", "127.0.0.1", "`serve`: the address to listen on"),
    Argument(
        "access_keys", "--access-keys", "", "none", "`serve`: keys with which clients sign, by name, or their file"
    ),
    Argument("grpc_port", "--grpc-port", "", "none", "`serve`: the port of clients that speak gRPC; 0 takes any"),
    Argument("grpc_tls", "--grpc-tls", "", "off", "`serve`: TLS on that port; alone, the broker makes a certificate"),
    Argument(
        "", "--grpc-tls-cert", "", "none", "`serve`: the file of a certificate; in Python the first of `grpc_tls`"
    ),
    Argument("", "--grpc-tls-key", "", "none", "`serve`: the file of its key; in Python the second of `grpc_tls`"),
    Argument("metrics_port", "--metrics-port", "", "none", "`serve`: the port of /metrics; 0 takes any"),
    Argument("", "--log-format", "", "text", "`serve`: the form of the log: text or json"),
    Argument("", "--until-stdin-ends", "", "off", "`follow`: end when stdin ends, as it does when the parent ends"),
    Argument("advertise", "--advertise", "", "none", "`serve`: the address that routes name, `host:port`"),
    Argument(
        "ordered_groups",
        "--ordered-group",
        "",
        "none",
        "`serve`: groups whose consumers of gRPC get the messages of a queue in order",
    ),
    Argument("allow_remote", "--allow-remote", "", "off", "`serve`: allow an address that other machines reach"),
    Argument("", "--json", "", "off", "JSON instead of text"),
    Argument("", "--long", "", "off", "`get`: more columns"),
    Argument("", "--format", "", "", "`get`: the text for each message"),
    Argument("", "--raw", "", "off", "`get`: bodies as they are"),
    Argument("", "--delimiter", "", "a line end", "`get --raw`: the bytes after each body"),
    Argument("", "--body-bytes", "", "", "the most bytes of each body"),
    Argument("", "--all", "", "off", "`info`: read the queues of all topics"),
    Argument("", "--file", "", "all", "`dump index`: one IndexFile"),
    Argument("", "--kind", "", "the first", "`dump queue`: the kind of queues"),
    Argument("", "--records", "", "off", "`dump queue`: show each entry's record"),
)
GROUPS = {
    "Store": STORE_ARGUMENTS,
    "Jobs": JOB_ARGUMENTS,
    "Messages": MESSAGE_ARGUMENTS,
    "Consumer progress and waiting": PROGRESS_ARGUMENTS,
    "Output of commands": OUTPUT_ARGUMENTS,
}
"""The arguments of public calls, and of the commands that do the same: one row is one setting, and has one name."""
ARGUMENTS = tuple(one for group in GROUPS.values() for one in group)


def tables() -> str:
    """Make all tables, as Markdown."""
    groups = "\n".join(f"### {title}\n\n{_arguments(group)}" for title, group in GROUPS.items())
    return f"{_settings()}\n## Arguments of calls, options of commands\n\n{_ARGUMENTS_TEXT}\n{groups}"


_ARGUMENTS_TEXT = """\
One row is one setting, and its names are the same word: `split_mb` in Python is `--split-mb` on the command line.
The option of a list is singular and may be given again: `topics` is `--topic`.
A flag that is on by default is turned off with `--no-`, such as `--no-verify-crc`.
`format("rocketmq")` has the words of Spark's Kafka source and of RocketMQ's connectors.
Options that only Spark has are in [Read a store with Spark](tasks/spark.md#options).
"""


def _settings() -> str:
    names, meanings = rocketmq_names(), _meanings()
    head = "| `StoreConfig(...)` | broker.conf, `--set NAME=VALUE` | other option | default | meaning |"
    rows = [head, "|---|---|---|---|---|"]
    for field, name in names.items():
        rows.append(f"| `{field}` | `{name}` | {FLAGS.get(field, '')} | {_default(field)} | {meanings[field]} |")
    return "\n".join(rows) + "\n"


def _default(field: str) -> str:
    if field in DEFAULTS:
        return DEFAULTS[field]
    value = {one.name: one.default for one in fields(LogSettings)}.get(field)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value.value if isinstance(value, Enum) else value)


def _meanings() -> dict[str, str]:
    """The docstrings of StoreConfig's fields."""
    (body,) = (node.body for node in ast.parse(textwrap.dedent(inspect.getsource(StoreConfig))).body)
    found = {}
    for statement, after in pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant):
            found[ast.unparse(statement.target)] = " ".join(str(after.value.value).split())
    return found


def _arguments(group: Iterable[Argument]) -> str:
    rows = ['| Python | command line | `format("rocketmq")` | default | meaning |', "|---|---|---|---|---|"]
    for one in group:
        python, cli, spark = (_code(names) for names in one[:3])
        rows.append(f"| {python} | {cli} | {spark} | {one.default} | {one.meaning} |")
    return "\n".join(rows) + "\n"


def _code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", ") if name)


def renewed(page: str) -> str:
    """The page with the tables as the code has them now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
