"""RocketMQ's own clients against two brokers: Apache RocketMQ's and ours; what they see must agree."""
