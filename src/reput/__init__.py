"""reput: RocketMQ's message store for Python, indexed by Spark.

    import reput
    report = reput.rebuild("/path/to/store")        # both indexes from the log, with Spark
    report = reput.check("/path/to/store")          # are the indexes what the log says?
    store = reput.MessageStore.open("/path/to/store")   # put, get, look up
    producer = reput.Producer("group", "host:9876")     # send to a broker; reput.Consumer gets

Importing this package is cheap: Spark, numba and pyarrow are loaded by the calls that need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reput.api import check, convert, diff, export, follow, info, read_report, rebuild, register, scan
    from reput.broker.serve import RunningBroker, serve
    from reput.client.blocking import Consumer, Producer
    from reput.client.consumer import AsyncConsumer
    from reput.client.producer import AsyncProducer
    from reput.client.received import ReceivedMessage
    from reput.client.results import SendResult, SendStatus
    from reput.config import StoreConfig
    from reput.embedded import MessageStore
    from reput.errors import (
        AccessError,
        BrokerError,
        ClientError,
        ClosedError,
        ConfigError,
        DamagedLogError,
        DamagedStoreError,
        DataLossError,
        DiskFullError,
        EngineError,
        FlushError,
        ForkedStoreError,
        NewerDatabaseError,
        NoRouteError,
        NoSpaceError,
        NotAStoreError,
        PutError,
        ReputError,
        StaleEpochError,
        StoreLockedError,
        TailFullError,
        TimedOutError,
        UnreachableError,
        UnsupportedStoreError,
    )
    from reput.formats.log.record import Host
    from reput.log.encode.message import Message, PutResult, PutStatus
    from reput.store.read.queue_answers import PullLimits
    from reput.store.read.results import GetResult, GetStatus
    from reput.store.read.sql_filter import SqlFilter

__version__ = "0.1.0"

_HOMES = {
    "MessageStore": "reput.embedded",
    "Message": "reput.log.encode.message",
    "Host": "reput.formats.log.record",
    "PutResult": "reput.log.encode.message",
    "PutStatus": "reput.log.encode.message",
    "GetResult": "reput.store.read.results",
    "GetStatus": "reput.store.read.results",
    "PullLimits": "reput.store.read.queue_answers",
    "SqlFilter": "reput.store.read.sql_filter",
    "check": "reput.api",
    "convert": "reput.api",
    "diff": "reput.api",
    "export": "reput.api",
    "follow": "reput.api",
    "info": "reput.api",
    "read_report": "reput.api",
    "rebuild": "reput.api",
    "register": "reput.api",
    "scan": "reput.api",
    "RunningBroker": "reput.broker.serve",
    "serve": "reput.broker.serve",
    "Consumer": "reput.client.blocking",
    "Producer": "reput.client.blocking",
    "AsyncConsumer": "reput.client.consumer",
    "AsyncProducer": "reput.client.producer",
    "ReceivedMessage": "reput.client.received",
    "SendResult": "reput.client.results",
    "SendStatus": "reput.client.results",
    "StoreConfig": "reput.config",
    "AccessError": "reput.errors",
    "BrokerError": "reput.errors",
    "ClientError": "reput.errors",
    "ClosedError": "reput.errors",
    "ConfigError": "reput.errors",
    "DamagedLogError": "reput.errors",
    "DamagedStoreError": "reput.errors",
    "DataLossError": "reput.errors",
    "DiskFullError": "reput.errors",
    "EngineError": "reput.errors",
    "FlushError": "reput.errors",
    "ForkedStoreError": "reput.errors",
    "NewerDatabaseError": "reput.errors",
    "NoRouteError": "reput.errors",
    "NoSpaceError": "reput.errors",
    "NotAStoreError": "reput.errors",
    "PutError": "reput.errors",
    "ReputError": "reput.errors",
    "StaleEpochError": "reput.errors",
    "StoreLockedError": "reput.errors",
    "TailFullError": "reput.errors",
    "TimedOutError": "reput.errors",
    "UnreachableError": "reput.errors",
    "UnsupportedStoreError": "reput.errors",
}

__all__ = [
    "AccessError",
    "AsyncConsumer",
    "AsyncProducer",
    "BrokerError",
    "ClientError",
    "ClosedError",
    "ConfigError",
    "Consumer",
    "DamagedLogError",
    "DamagedStoreError",
    "DataLossError",
    "DiskFullError",
    "EngineError",
    "FlushError",
    "ForkedStoreError",
    "GetResult",
    "GetStatus",
    "Host",
    "Message",
    "MessageStore",
    "NewerDatabaseError",
    "NoRouteError",
    "NoSpaceError",
    "NotAStoreError",
    "Producer",
    "PullLimits",
    "PutError",
    "PutResult",
    "PutStatus",
    "ReceivedMessage",
    "ReputError",
    "RunningBroker",
    "SendResult",
    "SendStatus",
    "SqlFilter",
    "StaleEpochError",
    "StoreConfig",
    "StoreLockedError",
    "TailFullError",
    "TimedOutError",
    "UnreachableError",
    "UnsupportedStoreError",
    "check",
    "convert",
    "diff",
    "export",
    "follow",
    "info",
    "read_report",
    "rebuild",
    "register",
    "scan",
    "serve",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'reput' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    # The next use finds it without coming here.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
