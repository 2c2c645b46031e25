"""Commands of mqadmin, and their output without what differs from run to run."""

from __future__ import annotations

import re

OFFSET_ID, UNIQUE_ID = "OFFSET_ID", "UNIQUE_ID"
"""Placeholders for the ids of the last message of the topic `admin`; the client puts the ids in."""
VERSION = "5.5.0"
"""The version of the tools, which come with this client."""
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[ ,]\d\d:\d\d:\d\d([,.]\d+)?|\d{4}-\d\d-\d\d#[\d:]+|\b20\d{15}\b|\b1[6-9]\d{11}\b")
_ADDRESSES = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+|@[\w#]+)?")
_IDS = re.compile(r"\b[0-9A-F]{32,}\b")
_MEASURED = re.compile(
    r"(?<=CommitLog Offset: )\d+|(?<=commitLogOffset=)\d+|(?<=ID@)\d+$"
    r"|(?<=TPS: )[\d.]+|(?<=Avg RT: )[\d.]+|(?<= true )\d+$"
)
_OF_A_CLUSTER = re.compile(r"^DefaultCluster reput .*\d.*$")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_SHORT_LIVED = re.compile(r"^%RETRY%.*-(assign-group|dead-readers)$")
"""Retry topics of clients that may be gone before their first heartbeat."""
_HINT = re.compile(r"\. Send to it with automatic creation.*|^(See|For more information,) .*")
"""The text after RocketMQ's words about an unknown topic: links, and from our name server the remedy."""
_SPACES = re.compile(r"[ \t]+")


def commands(prefix: str) -> dict[str, list[str]]:
    """Return the words of the commands, by name. The group `admin-group` has read the topic `admin`, and is online."""
    topic, group, made = f"{prefix}admin", f"{prefix}admin-group", f"{prefix}made"
    server = ["-n", "{namesrv}"]
    return {
        "consumerProgress": ["consumerProgress", *server, "-g", group],
        "consumerProgress -t": ["consumerProgress", *server, "-g", group, "-t", topic],
        "consumerStatus": ["consumerStatus", *server, "-g", group],
        "consumerConnection": ["consumerConnection", *server, "-g", group],
        "producerConnection": ["producerConnection", *server, "-g", f"{prefix}admin-senders", "-t", topic],
        "cloneGroupOffset to nobody": ["cloneGroupOffset", *server, "-s", group, "-d", f"{prefix}none", "-t", topic],
        "updateSubGroup": ["updateSubGroup", *server, "-b", "{broker}", "-g", f"{prefix}twin"],
        "cloneGroupOffset": ["cloneGroupOffset", *server, "-s", group, "-d", f"{prefix}twin", "-t", topic],
        "consumerProgress of a clone": ["consumerProgress", *server, "-g", f"{prefix}twin", "-t", topic],
        "resetOffsetByTime": ["resetOffsetByTime", *server, "-g", f"{prefix}admin-group", "-t", topic, "-s", "-1"],
        "consumerProgress after a reset": ["consumerProgress", *server, "-g", group, "-t", topic],
        "resetOffsetByTime of nobody": ["resetOffsetByTime", *server, "-g", f"{prefix}nobody", "-t", topic, "-s", "0"],
        "topicList": ["topicList", *server],
        "topicRoute": ["topicRoute", *server, "-t", topic],
        "topicStatus": ["topicStatus", *server, "-t", topic],
        "queryMsgById": ["queryMsgById", *server, "-t", topic, "-i", OFFSET_ID],
        "queryMsgById of nothing": ["queryMsgById", *server, "-t", topic, "-i", "7F00000100002A9F00000000FFFFFFFF"],
        "queryMsgByKey": ["queryMsgByKey", *server, "-t", topic, "-k", "counted3"],
        "queryMsgByUniqueKey": ["queryMsgByUniqueKey", *server, "-t", topic, "-i", UNIQUE_ID],
        "printMsg": ["printMsg", *server, "-t", topic, "-d", "true"],
        "printMsg with tags": ["printMsg", *server, "-t", topic, "-s", "none"],
        "updateTopic": ["updateTopic", *server, "-b", "{broker}", "-t", made, "-r", "3", "-w", "3"],
        "updateTopic of a wrong name": ["updateTopic", *server, "-b", "{broker}", "-t", "a b", "-r", "3", "-w", "3"],
        "sendMessage": ["sendMessage", *server, "-t", made, "-p", "a", "-b", "reput", "-i", "0", "-k", "k"],
        "checkMsgSendRT": ["checkMsgSendRT", *server, "-t", made, "-a", "6", "-s", "64"],
        "topicStatus of a new topic": ["topicStatus", *server, "-t", made],
        "updateTopic with fewer queues": ["updateTopic", *server, "-b", "{broker}", "-t", made, "-r", "2", "-w", "1"],
        "topicRoute of a changed topic": ["topicRoute", *server, "-t", made],
        "deleteTopic": ["deleteTopic", *server, "-t", made, "-c", "DefaultCluster"],
        "topicRoute of a deleted topic": ["topicRoute", *server, "-t", made],
        "clusterList": ["clusterList", *server],
        "clusterList -m": ["clusterList", *server, "-m"],
        "brokerStatus": ["brokerStatus", *server, "-b", "{broker}"],
    }


def lines_of(output: str) -> list[str]:
    """Return the lines that a command wrote, sorted, without what differs from run to run, and the width of columns."""
    text = _IDS.sub("ID", _ADDRESSES.sub("ADDRESS", _TIMES.sub("TIME", output)))
    lines = (_plain(_SPACES.sub(" ", line).strip()) for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith(("at ", "... ")))


def _plain(line: str) -> str:
    if _OF_A_CLUSTER.match(line):
        return _NUMBER.sub("N", line)
    return _SHORT_LIVED.sub("", _HINT.sub("", _MEASURED.sub("N", line)))


def names_of(output: str) -> set[str]:
    """Return the names of the values that `brokerStatus` shows, but for those that have a path or a level in it."""
    names = (line.partition(":")[0].strip() for line in output.splitlines())
    return {name for name in names if name and "_" not in name}
