"""Commands of mqadmin, and their output without what differs from run to run."""

from __future__ import annotations

import re

VERSION = "5.5.0"
"""The version of the tools, which come with this client."""
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[ ,]\d\d:\d\d:\d\d([,.]\d+)?|\d{4}-\d\d-\d\d#[\d:]+|\b20\d{15}\b|\b1[6-9]\d{11}\b")
_ADDRESSES = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+|@[\w#]+)?")
_IDS = re.compile(r"\b[0-9A-F]{32}\b")
_SPACES = re.compile(r"[ \t]+")


def commands(prefix: str) -> dict[str, list[str]]:
    """Return the words of the commands, by name. The group `admin-group` has read the topic `admin`, and is online."""
    topic, group = f"{prefix}admin", f"{prefix}admin-group"
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
        "resetOffsetByTime of nobody": ["resetOffsetByTime", *server, "-g", f"{prefix}nobody", "-t", topic, "-s", "0"],
    }


def lines_of(output: str) -> list[str]:
    """Return the lines that a command wrote, sorted, without times, addresses, ids, traces and the width of columns."""
    text = _IDS.sub("ID", _ADDRESSES.sub("ADDRESS", _TIMES.sub("TIME", output)))
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith(("at ", "... ")))
