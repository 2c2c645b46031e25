"""Names of message properties as text, as messages that are not encoded have them.

`properties` has the bytes of those that readers of records look for.

Source: `MessageConst`.
"""

from __future__ import annotations

from typing import Final

from reput.formats.log import properties

NAME_END: Final = properties.NAME_END.decode()
PROPERTY_END: Final = properties.PROPERTY_END.decode()

BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
CHECK_IMMUNITY_S: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES: Final = properties.CHECK_TIMES.decode()
CLUSTER: Final = "CLUSTER"
CRC32: Final = properties.CRC32.decode()
DEAD_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
DEAD_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
"""The topic that a dead letter was sent to first."""
DELAY: Final = properties.DELAY.decode()
FIRST_POP_TIME: Final = "1ST_POP_TIME"
INNER_BASE: Final = properties.INNER_BASE.decode()
INNER_MULTI_DISPATCH: Final = properties.INNER_MULTI_DISPATCH.decode()
INNER_MULTI_QUEUE_OFFSET: Final = properties.INNER_MULTI_QUEUE_OFFSET.decode()
INNER_NUM: Final = properties.INNER_NUM.decode()
KEYS: Final = properties.KEYS.decode()
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PREPARED_QUEUE_OFFSET: Final = properties.PREPARED_QUEUE_OFFSET.decode()
PRODUCER_GROUP: Final = properties.PRODUCER_GROUP.decode()
REAL_QUEUE_ID: Final = properties.REAL_QUEUE_ID.decode()
REAL_TOPIC: Final = properties.REAL_TOPIC.decode()
RECONSUME_TIME: Final = "RECONSUME_TIME"
REGION: Final = "MSG_REGION"
RETRY_TOPIC: Final = "RETRY_TOPIC"
SHARDING_KEY: Final = "__SHARDINGKEY"
"""Messages with the same value are in one queue, in order (`MessageConst.PROPERTY_SHARDING_KEY`)."""
TAGS: Final = properties.TAGS.decode()
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELETE_KEY: Final = properties.TIMER_DELETE_KEY.decode()
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_OUT_MS: Final = properties.TIMER_OUT_MS.decode()
TIMER_ROLL_TIMES: Final = properties.TIMER_ROLL_TIMES.decode()
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
TRACE_ON: Final = "TRACE_ON"
TRANSACTION_ID: Final = properties.TRANSACTION_ID.decode()
TRANSACTION_PREPARED: Final = "TRAN_MSG"
UNIQUE_KEY: Final = properties.UNIQUE_KEY.decode()
WAIT: Final = properties.WAIT.decode()
