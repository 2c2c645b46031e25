"""Names of options with their meanings, and names that belong to a broker and are refused.

Spark passes names in lower case, so case does not count. An unknown name is an error with the nearest known one, and
is never ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from reput.errors import ConfigError

READ = {
    "path": "the store's root folder (storePathRootDir); load(path) gives it too",
    "storePath": "the same",
    "config": "a broker.conf for settings that the files do not show (sizes, storePathCommitLog)",
    "topic": "one topic",
    "liteTopic": "lite topics of the topic that option topic names (commas between): only their messages",
    "subscribe": "topics with commas between",
    "subscribePattern": "a Java-like regular expression that the whole topic must match",
    "assign": 'JSON: {"topic": [0, 1]} or {"topic": {"broker": [0, 1]}}',
    "filter.tag": "tags: paid || sent; * for all",
    "subExpression": "the same",
    "filter.sql": "a SQL92 expression over properties",
    "keys": "messages that have one of these keys or unique keys (commas between)",
    "startingOffsets": 'earliest, or JSON: {"topic": {"0": 23, "1": -2}}, or a broker between; -2 earliest, -1 latest',
    "endingOffsets": "latest, or JSON as startingOffsets; exclusive",
    "startingTimestamp": "messages stored at or after this time (ms since 1970)",
    "endingTimestamp": "messages stored before this time (ms since 1970)",
    "startingOffsetsByTimestamp": 'JSON: {"topic": {"0": 1700000000000}}',
    "endingOffsetsByTimestamp": "JSON as startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy": "latest, or error where a queue has no message from that time on",
    "commitLogStart": "begin at this log offset (bytes)",
    "commitLogEnd": "end before this log offset (bytes)",
    "maxOffsetsPerTrigger": "approximate maximum of messages in a micro-batch",
    "maxBytesPerTrigger": "approximate maximum of bytes of log in a micro-batch; 1 GiB by default",
    "minPartitions": "tasks at least, if the work is large enough",
    "maxRecordsPerPartition": "approximate maximum of messages in a task",
    "failOnDataLoss": "true: fail if messages that are asked for are gone or damaged; false: skip them",
    "failOnMissingTopic": "true: fail if a topic or queue that an option names is not there; false: read without it; "
    "by default a batch fails and a stream warns",
    "body": "decoded: decompress bodies, as a consumer does, without sysFlag's bits of compression; raw: as stored",
    "maxDecodedBodySize": "bytes that a body may expand to; 64 MiB by default",
    "includeBody": "false: leave out the column of the body",
    "includeHeaders": "true: add the headers column to schema=kafka",
    "schema": "native or kafka",
    "columns": "only these columns (commas between); Spark does not say which columns a query needs",
    "brokerName": "the value of the column brokerName",
    "scan": "auto, log or queue: the way to read",
    "readReport": "a folder in which each task leaves the number of bytes that it read; see reput.read_report(folder)",
    "verifyCrc": "check each body's CRC; by default where the body is read",
}
WRITE = {
    "path": "the store's root folder",
    "storePath": "the same",
    "config": "a broker.conf",
    "topic": "the topic of all messages, in place of a column",
    "writeId": "a name for a batch write, by which a run that repeats it appends only what is missing, or nothing",
    "checkpointLocation": "Spark's own",
    "queryName": "Spark's own",
}
BROKER = (
    "nameServer", "namesrvAddr", "endpoints", "group", "groupIdPrefix", "pullBatchSize", "pullTimeoutMs", "accessKey",
    "secretKey", "kafka.bootstrap.servers", "rocketmq.client.endpoints",
)  # fmt: skip
"""Options of sources that read through a broker."""
NOT_YET = ("minOffsetsPerTrigger", "maxTriggerDelay")
"""Options of other sources whose meaning this one does not offer."""


def known_options(options: Mapping[str, str], names: Iterable[str], verb: str) -> dict[str, str]:
    """Return the options under their proper names.

    Raises:
        ConfigError: one of them is not known, or belongs to a broker.
    """
    proper = {name.lower(): name for name in names}
    refused = {name.lower(): name for name in BROKER}
    absent = {name.lower(): name for name in NOT_YET}
    found = {}
    for given, value in options.items():
        key = given.lower()
        if key in proper:
            found[proper[key]] = value
        elif key in refused or key.startswith(("kafka.", "rocketmq.")):
            raise ConfigError(
                f"option {refused.get(key, given)}: belongs to a source that asks a broker. This one reads a store's "
                "files: give path, the store's root folder, and leave this option out"
            )
        elif key in absent:
            raise ConfigError(f"option {absent[key]}: not offered; maxOffsetsPerTrigger and maxBytesPerTrigger are")
        else:
            near = difflib.get_close_matches(key, proper, 1, 0.5)
            hint = f"did you mean {proper[near[0]]}?" if near else f"there are {', '.join(sorted(proper.values()))}"
            raise ConfigError(f"option {given}: not known when {verb} a store: {hint}")
    return found
