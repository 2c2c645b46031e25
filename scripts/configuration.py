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
from dataclasses import fields
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig, rocketmq_names
from reput.dispatch import bloom
from reput.formats import batch_consume_queue, consume_queue, consume_queue_ext, index_file
from reput.formats.record import LOCALHOST
from reput.log.settings import LogSettings
from reput.store.disk import kinds, settings
from reput.store.progress import progress
from reput.store.read import follower

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
    "force_verify_prop_crc": "false",
    "check_crc_on_recover": "true",
    "store_type": f"as the files show, else {kinds.DEFAULT_STORE_TYPE}",
    "enable_consume_queue_ext": "as the files show",
    "enable_calc_filter_bit_map": "false",
    "max_error_rate_of_bloom_filter": str(bloom.DEFAULT_ERROR_PERCENT),
    "expect_consumer_num_use_filter": str(bloom.DEFAULT_EXPECTED),
    "rocksdb_cq_double_write_enable": "as the files show",
    "enable_multi_dispatch": "true",
    "enable_dledger_commit_log": "false",
    "broker_ip1": ".".join(map(str, LOCALHOST.address)),
    "listen_port": str(LOCALHOST.port),
    "flush_consumer_offset_interval": str(progress.PERSIST_INTERVAL_MS),
    "consumer_offset_update_version_step": str(progress.VERSION_STEP),
    "tail_max_entries": str(follower.TAIL_MAX_ENTRIES),
    "clean_file_forcibly_enable": "true with a broker.conf, else false",
    "delete_expired": "true with a broker.conf, else as the other settings say",
    "force_setting": "false",
}
"""Defaults that no dataclass of the log's settings has."""
FLAGS = {
    "store_path_root_dir": "STORE",
    "flush_disk_type": "`put --sync`",
    "delete_expired": "`put --delete-expired`, `--keep-expired`",
    "force_setting": "`--force-setting`",
}
"""Options of their own that set these, beside `--set`."""


class Argument(NamedTuple):
    """One setting of a call: its names in Python, on the command line and for Spark, its default, what it means."""

    python: str
    cli: str
    spark: str
    default: str
    meaning: str


ARGUMENTS = (
    Argument("path", "STORE", "path, storePath", "", "the store's root folder"),
    Argument("other", "OTHER", "", "none", "`diff`: another store"),
    Argument("config", "--config, --set", "config", "none", "a broker.conf, or settings of the table above"),
    Argument("force_setting", "--force-setting", "", "off", "go on with a setting that contradicts the files"),
    Argument("spark", "--engine", "", "Spark, or the loop without PySpark", "a session, or False for no Spark"),
    Argument("master", "--master", "", "local[*]", "the Spark master URL"),
    Argument("listener, tell", "--quiet, --json", "", "", "who is told about progress"),
    Argument("split_mb", "--splits-mb", "", "128", "size of the ranges that tasks decode (MiB)"),
    Argument("verify_crc", "--no-verify-crc", "verifyCrc", "on", "check each body's CRC"),
    Argument("salvage", "--salvage", "", "off", "go on after damage, and list each gap"),
    Argument("only", "--only", "", "both", "`rebuild`: the queues alone, or the IndexFiles alone"),
    Argument("topics, topic", "--topic", "topic, subscribe", "all", "these topics"),
    Argument("skip_topics", "--skip-topic", "", "none", "`rebuild`: all but these topics"),
    Argument("index_tags", "--index-tags", "", "auto", "`rebuild`: whether tags get index items"),
    Argument("empty_log", "--empty-log", "", "off", "`rebuild`: a log without a record is meant"),
    Argument("", "--dry-run", "", "off", "say what would be done"),
    Argument("to", "--to", "", "", "`convert`: the kind of queues"),
    Argument("source", "--from", "", "log", "`convert`: what they are made from"),
    Argument("until_caught_up", "--until-caught-up", "", "off", "`follow`: end when nothing is left"),
    Argument("max_batch_mb", "--max-batch-mb", "maxBytesPerTrigger", "2048; 1 GiB in Spark", "most log a batch"),
    Argument("checkpoint", "--checkpoint", "checkpointLocation", "in the store", "the folder of Spark's own files"),
    Argument("folder", "--to", "", "", "`export`: where the files go"),
    Argument("columns", "--columns", "columns", "all", "only these columns"),
    Argument("queue_id", "--queue", "assign", "all", "only these queues"),
    Argument("start_time", "--since", "startingTimestamp", "all", "stored at this time or later"),
    Argument("end_time", "--until", "endingTimestamp", "all", "stored before this time (`--until`: or at it)"),
    Argument("key", "--key", "keys", "all", "messages with this key or unique key (command: `query`)"),
    Argument("tags", "--filter", "filter.tag, subExpression", "all", "messages with one of these tags"),
    Argument("sql", "--sql", "filter.sql", "all", "messages whose properties match"),
    Argument("schema", "", "schema", "native", "native, or kafka"),
    Argument("fail_on_data_loss", "", "failOnDataLoss", "on", "off: pass over messages that are gone or damaged"),
    Argument("fail_on_missing_topic", "", "failOnMissingTopic", "on", "off: read without a topic that is not there"),
    Argument("read_only", "", "", "off", "`MessageStore.open`: only read"),
    Argument("create", "--create", "", "off", "`MessageStore.open`, `put`: make a new store"),
    Argument("limits", "", "", "none", "`MessageStore.open`: bounds on what one pull returns"),
    Argument("delete_expired", "--delete-expired, --keep-expired", "", "", "delete old files"),
    Argument("follow", "", "", "off", "`MessageStore.open`: start a follower"),
)
"""What the calls on a store take, and the commands that do the same."""


def tables() -> str:
    """Both tables, as Markdown."""
    return f"{_settings()}\n## Arguments of calls, options of commands\n\n{_ARGUMENTS_TEXT}\n{_arguments()}"


_ARGUMENTS_TEXT = """\
One row is one setting.
Calls have the argument, commands the option, and `format("rocketmq")` the option of the last column.
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


def _arguments() -> str:
    rows = ['| Python | command line | `format("rocketmq")` | default | meaning |', "|---|---|---|---|---|"]
    for one in ARGUMENTS:
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
