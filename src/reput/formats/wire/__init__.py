"""Bytes between processes: the remoting protocol of RocketMQ's brokers and clients, and the text for Prometheus.

May import `layout`, `java`, `topics`, `log` and `config`.
"""
