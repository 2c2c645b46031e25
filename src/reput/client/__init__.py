"""A client of RocketMQ's brokers: producers and consumers, for asyncio and for threads.

`AsyncProducer` and `AsyncConsumer` do the work, in the loop that starts them; `Producer` and `Consumer` run them in a
thread of their own. Requests have what RocketMQ's Java client sends, and both talk to its broker and to `reput serve`.

May import `formats`, `log.encode` and `errors`; Arrow batches also import `connect`.
"""
