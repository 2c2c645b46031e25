"""Spark data source `format("rocketmq")`: reads a store's files as a table or a stream, and appends to a store."""
