"""A broker for real RocketMQ clients on a message store: the remoting protocol, and one handler for each request code.

`serve` starts one. `handlers` has the table of requests, and `formats.wire.remoting` the bytes of the protocol.
May import all but `cli`.
"""
