"""Options of a read, parsed and checked at once, before a file is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from reput.config import StoreConfig
from reput.connect.options import names as option_names
from reput.connect.options.edges import Edge, Kind, ending_edge, queue_lists, starting_edge
from reput.connect.options.schemas import BODIES, BodyForm, Column, FrameSchema, Need, columns_of
from reput.dispatch.sql import compile as compile_sql
from reput.errors import ConfigError
from reput.formats.config.tag_expression import tags_of
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX
from reput.formats.log.body import MAX_DECODED_BODY_SIZE
from reput.formats.log.record import CHECK_BODY, CHECK_NONE
from reput.formats.topics.lite_topics import decode_lite_topic, light_queue_of
from reput.nearest import near_it

E = TypeVar("E", bound=StrEnum)

_TRUE, _FALSE = "true", "false"
TASK_BYTES = 256 << 20
"""Bytes of log that one task reads, at most."""


MOST_DECODED_BODY_SIZE = 1 << 30
"""The highest maxDecodedBodySize: a column of bodies holds less than 2 GiB."""


class Scan(StrEnum):
    """The way a store is read: by ranges of the log, by queues, or the cheaper of the two."""

    AUTO = "auto"
    LOG = "log"
    QUEUE = "queue"


class Strategy(StrEnum):
    """The answer to a queue that has no message from a starting time on."""

    LATEST = "latest"
    ERROR = "error"


@dataclass(frozen=True)
class TopicChoice:
    """Topics and queues that are read; all of them if nothing is given."""

    names: frozenset[str] | None = None
    pattern: str | None = None
    assigned: Mapping[str, frozenset[int]] | None = None
    option: str = ""
    """The option that chose them."""

    @property
    def is_everything(self) -> bool:
        """True if nothing is left out."""
        return self.names is None and self.pattern is None and self.assigned is None

    @property
    def named(self) -> frozenset[str] | None:
        """The topics that are chosen by name; None if they are chosen in another way."""
        return self.names if self.assigned is None else frozenset(self.assigned)

    def wants(self, topic: str, queue_id: int) -> bool:
        """Return True if a queue is read."""
        if self.assigned is not None:
            return queue_id in self.assigned.get(topic, ())
        return self.may_want(topic)

    def may_want(self, topic: str) -> bool:
        """Return True if any queue of a topic is read."""
        if self.assigned is not None:
            return topic in self.assigned
        if self.names is not None:
            return topic in self.names
        return self.pattern is None or re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader; see `reput.connect.options.names` for the meanings. Times in ms, sizes in bytes."""

    path: str
    config: StoreConfig
    shape: FrameSchema
    columns: tuple[Column, ...]
    topics: TopicChoice
    tags: tuple[str, ...]
    sql: str
    keys: tuple[str, ...]
    starting: Edge
    ending: Edge
    strategy: Strategy
    log_begin: int
    log_end: int
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_partitions: int
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    fail_on_missing_topic: bool | None
    broker_name: str | None
    scan: Scan
    crc_check: int
    body: BodyForm = BodyForm.DECODED
    given_body_size: int | None = None
    """Option maxDecodedBodySize."""
    report: str | None = None
    task_bytes: int = TASK_BYTES

    @property
    def decoded_body_size(self) -> int:
        """The most bytes that a body may expand to; 0 for bodies as they are stored."""
        if self.body is BodyForm.RAW:
            return 0
        return self.given_body_size or self.config.max_decoded_body_size or MAX_DECODED_BODY_SIZE


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a reader.

    Raises:
        ConfigError: an option is unknown, or its value is not of its form.
    """
    options = option_names.known_options(given, option_names.READ, "reading")
    shape = _choice(options, "schema", FrameSchema, FrameSchema.NATIVE)
    body = _choice(options, "body", BodyForm, BodyForm.DECODED)
    columns = _columns(options, shape, body)
    broker_name = options.get("brokerName")
    has_body = any(column.need is Need.BODY for column in columns)
    return ReadOptions(
        path=store_path(options),
        config=StoreConfig.from_file(options["config"]) if "config" in options else StoreConfig(),
        shape=shape,
        columns=columns,
        topics=_topics(options, broker_name),
        tags=_tags(options),
        sql=_sql(options),
        keys=_keys(options),
        starting=starting_edge(options, broker_name),
        ending=ending_edge(options, broker_name),
        strategy=_choice(options, "startingOffsetsByTimestampStrategy", Strategy, Strategy.LATEST),
        log_begin=_number(options, "commitLogStart", 0, least=0),
        log_end=_number(options, "commitLogEnd", INT64_MAX, least=0),
        max_offsets_per_trigger=_number(options, "maxOffsetsPerTrigger", 0) or None,
        max_bytes_per_trigger=_number(options, "maxBytesPerTrigger", 0) or None,
        min_partitions=_number(options, "minPartitions", 1),
        max_records_per_partition=_number(options, "maxRecordsPerPartition", 0) or None,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        fail_on_missing_topic=_flag(options, name, default=True) if (name := "failOnMissingTopic") in options else None,
        broker_name=broker_name,
        scan=_choice(options, "scan", Scan, Scan.AUTO),
        body=body,
        given_body_size=_number(options, "maxDecodedBodySize", 0, most=MOST_DECODED_BODY_SIZE) or None,
        crc_check=CHECK_BODY if _flag(options, "verifyCrc", default=has_body) else CHECK_NONE,
        report=local_path(options["readReport"], "readReport") if options.get("readReport") else None,
    )


def refuse_no_batch(options: ReadOptions) -> None:
    """Refuse options that a batch does not have.

    Raises:
        ConfigError: startingOffsets=latest, as in Spark's Kafka source, or a bound on a stream's micro-batches.
    """
    if options.starting.kind is Kind.LATEST:
        raise ConfigError("startingOffsets=latest: a batch would be empty; give earliest, offsets or a timestamp")
    if options.max_offsets_per_trigger or options.max_bytes_per_trigger:
        raise ConfigError(
            "maxOffsetsPerTrigger and maxBytesPerTrigger bound a stream's micro-batches: leave them out here"
        )


def store_path(options: Mapping[str, str]) -> str:
    """Return the store's folder.

    Raises:
        ConfigError: it is not given, given twice, or remote.
    """
    given = [options[name] for name in ("path", "storePath") if options.get(name)]
    if not given:
        raise ConfigError('no path: give the store\'s root folder: load("/data/store"), or option path')
    if len(set(given)) > 1:
        raise ConfigError(f"path={given[0]} and storePath={given[1]}: give one")
    return local_path(given[0], "path")


def local_path(given: str, name: str) -> str:
    """Return a path as the file system has it.

    Raises:
        ConfigError: it is empty, or remote.
    """
    if not given:
        raise ConfigError(f"{name}: the path is empty. Give a folder; '.' is the current one")
    path = given.removeprefix("file://") if given.startswith("file:///") else given.removeprefix("file:")
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", path):
        raise ConfigError(f"{name}={path}: give a folder of a file system that every worker has mounted")
    return path


def _columns(options: Mapping[str, str], shape: FrameSchema, body: BodyForm) -> tuple[Column, ...]:
    headers = _flag(options, "includeHeaders", default=False)
    include_body = _flag(options, "includeBody", default=True)
    columns = columns_of(shape, headers, include_body, body)
    if "columns" not in options:
        return columns
    by_name = {column.name.lower(): column for column in columns}
    chosen = []
    for name in options["columns"].split(","):
        column = by_name.get(name.strip().lower())
        if column is None:
            without = " (includeBody=false)" if name.strip().lower() in BODIES and not include_body else ""
            names = [column.name for column in columns]
            hint = near_it(name.strip(), names) or f"There are: {', '.join(names)}"
            raise ConfigError(f"option columns: {name.strip()!r}{without} is no column. {hint}")
        chosen.append(column)
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"option columns={options['columns']}: a column is named twice")
    return tuple(chosen)


def _topics(options: Mapping[str, str], broker_name: str | None) -> TopicChoice:
    given = [name for name in ("topic", "subscribe", "subscribePattern", "assign") if name in options]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)}: give one of them")
    if "liteTopic" in options and given not in (["topic"], ["subscribe"]):
        raise ConfigError(f"option liteTopic={options['liteTopic']}: name the parent topic with option topic")
    if not given:
        return TopicChoice()
    name, text = given[0], options[given[0]]
    if name == "assign":
        lists = queue_lists(text, name, broker_name)
        return TopicChoice(assigned=lists, option=name)
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern={text}: not a regular expression: {error}") from error
        return TopicChoice(pattern=text, option=name)
    names = frozenset(piece.strip() for piece in (text.split(",") if name == "subscribe" else [text]) if piece.strip())
    if not names:
        raise ConfigError(f"option {name}: names no topic")
    if "liteTopic" in options:
        lite = [name.strip() for name in options["liteTopic"].split(",")]
        queues = lite_queues(names, lite, f"option liteTopic={options['liteTopic']}")
        return TopicChoice(names=queues, option="liteTopic")
    return TopicChoice(names=names, option=name)


def lite_queues(parents: frozenset[str], names: Iterable[str], given: str) -> frozenset[str]:
    """Return the light queues of the lite topics of a parent; `given` is what an error names.

    Raises:
        ConfigError: there are several parents, or a name is not that of a lite topic.
    """
    if len(parents) != 1:
        raise ConfigError(f"{given}: give one parent topic, not {len(parents)}")
    (parent,) = parents
    queues = {light_queue_of(parent.encode(), name.encode()) for name in names}
    if not queues or any(decode_lite_topic(queue) is None for queue in queues):
        raise ConfigError(f"{given}: give names of lite topics of {parent}; a name has no $ and is not empty")
    return frozenset(queue.decode() for queue in queues)


def _sql(given: Mapping[str, str]) -> str:
    """Return the SQL92 filter after a check of its grammar; "" for none."""
    expression = given.get("filter.sql", "")
    if expression:
        compile_sql(expression)
    return expression


def _tags(options: Mapping[str, str]) -> tuple[str, ...]:
    given = [name for name in ("filter.tag", "subExpression") if name in options]
    if len({options[name] for name in given}) > 1:
        raise ConfigError("filter.tag and subExpression say different things: give one")
    return tags_of(options[given[0]]) if given else ()


def _keys(options: Mapping[str, str]) -> tuple[str, ...]:
    keys = tuple(key for key in options.get("keys", "").split(",") if key)
    if "keys" in options and not keys:
        raise ConfigError("option keys: names no key. Leave it out to read messages with any keys")
    return keys


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, _TRUE if default else _FALSE).lower()
    if text not in (_TRUE, _FALSE):
        raise ConfigError(f"option {name}={options[name]}: give true or false")
    return text == _TRUE


def _number(options: Mapping[str, str], name: str, default: int, least: int = 1, most: int = INT64_MAX) -> int:
    text = options.get(name)
    if text is None:
        return default
    value = parse_whole(text, 64)
    if value is None or not least <= value <= most:
        up_to = "on" if most == INT64_MAX else f"to {most}"
        raise ConfigError(f"option {name}={text:.40}: give a whole number from {least} {up_to}")
    return value


def _choice(options: Mapping[str, str], name: str, kind: type[E], default: E) -> E:
    text = options.get(name)
    if text is None:
        return default
    try:
        return kind(text.lower())
    except ValueError:
        raise ConfigError(f"option {name}={text}: give {' or '.join(kind)}") from None
