"""A broker for real RocketMQ clients on a message store: the remoting protocol, and one handler for each request code.

`serve` starts one. `frames` has the protocol's bytes, `handlers` the table of requests. May import all but `cli`.
"""
