"""The gRPC protocol of RocketMQ's clients from 5.0 on, as RocketMQ's proxy serves it.

A call becomes requests of the remoting protocol, which the broker's handlers serve: limits, refusals and stored
messages are the same. Nothing of this folder is imported unless a broker has a gRPC port.

Source: `GrpcMessagingApplication` and the activities beside it, `LocalMessageService`.
"""
