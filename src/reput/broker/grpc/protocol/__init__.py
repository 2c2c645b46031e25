"""The messages of RocketMQ's gRPC protocol, which `make grpc-messages` generates from the `.proto` files beside.

Both files are those of Apache RocketMQ (rocketmq-apis, Apache License 2.0), unchanged, as the package
`rocketmq-client-nodejs` 1.0.8 has them. They are generated into a package of names of our own,
`reput.rocketmq.v2`: a process that also loads the messages of `rocketmq-python-client` has both. The wire has no names
of messages, and the service's own name is in `broker.grpc.methods`. May import nothing of reput.
"""
