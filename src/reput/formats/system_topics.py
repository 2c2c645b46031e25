"""Topics and groups in which a broker keeps messages that wait: timers, transactions, and pop.

Source: `TopicValidator`, `TimerMessageStore`, `PopAckConstants`, `MixAll`.
"""

TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Queue 0 has all timer messages; REAL_TOPIC and REAL_QID say where each goes."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Queue 0 has the half messages of transactions."""
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Queue 0 says which half messages have ended."""
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose offsets say how far the broker has read both."""
DATABASE_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
"""The half messages that the column family `trans` refers to."""
DATABASE_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""Each message ends one of them: TRANS_OFFSET is its log offset."""
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
"""The name of the cluster follows. Its queues have the checkpoints and acks of pop consumers that are due."""
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""The group whose offsets say how far the broker has read these queues."""
