"""Names and bits in the headers of requests that both sides have to know.

Source: `SendMessageRequestHeaderV2`, `PullSysFlag`.
"""

from __future__ import annotations

from typing import Final

SHORT_NAMES: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}
"""The letters by which the header of a send names its fields in the second version."""
LONG_NAMES: Final = {name: name for name in SHORT_NAMES}
"""The same for the first version."""
MOST_TRIES: Final = 16
"""Tries of a message by default, after which it is a dead letter (`maxReconsumeTimes`, `retryMaxTimes`)."""
COMMIT_FLAG: Final = 1
"""A bit of a pull's sysFlag: the pull commits the offset in its header."""
SUSPEND_FLAG: Final = 2
"""A bit of a pull's sysFlag: the broker may hold the pull until messages arrive."""
SUBSCRIPTION_FLAG: Final = 4
"""A bit of a pull's sysFlag: the pull's header has its subscription."""
CLASS_FILTER_FLAG: Final = 8
"""A bit of a pull's sysFlag: the pull's filter is a class of Java."""
