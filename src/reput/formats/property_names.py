"""Names of message properties as text, as messages that are not encoded have them; `properties` has their bytes."""

from __future__ import annotations

from typing import Final

from reput.formats import properties

CHECK_TIMES: Final = properties.TRANSACTION_CHECK_TIMES.decode()
CRC32: Final = properties.CRC32.decode()
DELAY: Final = properties.DELAY.decode()
PRODUCER_GROUP: Final = properties.PGROUP.decode()
REAL_QUEUE_ID: Final = properties.REAL_QID.decode()
REAL_TOPIC: Final = properties.REAL_TOPIC.decode()
SHARDING_KEY: Final = "__SHARDINGKEY"
"""Messages with the same value are in one queue, in order (`MessageConst.PROPERTY_SHARDING_KEY`)."""
TIMER_DELETE_KEY: Final = properties.TIMER_DEL_UNIQKEY.decode()
TIMER_OUT_MS: Final = properties.TIMER_OUT_MS.decode()
TIMER_ROLL_TIMES: Final = properties.TIMER_ROLL_TIMES.decode()
TRANSACTION_ID: Final = properties.TRANSACTION_ID.decode()
UNIQUE_KEY: Final = properties.UNIQ_KEY.decode()
WAIT: Final = properties.WAIT.decode()
