"""`reput.serve`: a broker in a thread of this process, ready when the call returns."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from reput.api import config_from
from reput.broker.follower import FollowerProcess
from reput.broker.metrics import Metrics
from reput.broker.server import BrokerServer
from reput.broker.services.broker import Broker
from reput.broker.state.attributes import MESSAGE_TYPES
from reput.broker.state.configuration import MAX_QUEUES, queue_count
from reput.broker.state.identity import BrokerIdentity
from reput.broker.wire.access import AccessKeys, read_access_keys
from reput.broker.wire.listener import LOCALHOST, listen, new_loop, start_server, stop_server
from reput.broker.wire.pages import PageServer
from reput.broker.wire.refusals import RefusedError
from reput.config import DEFAULT_TOPIC_QUEUES, StoreConfig, rocketmq_names
from reput.embedded import MessageStore
from reput.errors import AccessError, ClosedError, ConfigError
from reput.files.closing import Closing
from reput.files.scratch import ScratchFolder
from reput.formats.log.record import Host
from reput.formats.topics.lite_topics import MESSAGE_TYPE
from reput.formats.topics.permissions import READ, WRITE
from reput.formats.topics.topic_names import topic_fault
from reput.formats.wire.addresses import host_and_port
from reput.formats.wire.prometheus import CONTENT_TYPE
from reput.kernels import PlainMeanwhile, small_work
from reput.kernels.compiled.cache import are_cached

if TYPE_CHECKING:
    from reput.broker.grpc.certificates import Certificate
    from reput.broker.state.config_writes import ConfigWrite

log = logging.getLogger("reput.broker")
_STOP_S = 30.0
_CLOSING_TURNS = 8


class _NewTopic(NamedTuple):
    """A topic that is made, or changed. None keeps what the topic has; a new one gets the default."""

    queues: int | None
    message_type: str | None


class RunningBroker(Closing):
    """A broker that runs in a thread of this process. `close` stops it; it is a context manager.

    Attributes:
        address: `host:port`, of the name server and of the broker.
        metrics_address: `host:port` of `/metrics`; None without it.
        grpc_address: `host:port` for clients that speak gRPC; None without it.
        grpc_certificate: The certificate that TLS shows to them, as PEM; None without TLS.
        follower: The follower in a process of its own; None without it.
        path: The store's folder.
    """

    def __init__(
        self,
        path: Path,
        listener: socket.socket,
        config: StoreConfig,
        scratch: ScratchFolder | None,
        *,
        access_keys: AccessKeys | None,
        metrics_listener: socket.socket | None,
        grpc_listener: socket.socket | None,
        certificate: Certificate | None,
        advertised: str | None,
    ) -> None:
        host, port = listener.getsockname()[:2]
        self.address = f"{host}:{port}"
        self.metrics_address = None if metrics_listener is None else "{}:{}".format(*metrics_listener.getsockname())
        self.grpc_address = None if grpc_listener is None else "{}:{}".format(*grpc_listener.getsockname())
        self.grpc_certificate = None if certificate is None else certificate.chain
        self.path = path
        self._listener = listener
        self._metrics_listener = metrics_listener
        self._grpc_listener = grpc_listener
        self._access_keys = access_keys
        self._certificate = certificate
        self.follower: FollowerProcess | None = None
        self._scratch = scratch
        self._resources = contextlib.ExitStack()
        if scratch is not None:
            self._resources.callback(scratch.remove)
        self._resources.callback(listener.close)
        if metrics_listener is not None:
            self._resources.callback(metrics_listener.close)
        if grpc_listener is not None:
            self._resources.callback(grpc_listener.close)
        with contextlib.ExitStack() as resources:
            resources.enter_context(self._resources)
            # The plain kernels open a store before numba is loaded.
            with small_work():
                self._store = MessageStore.open(path, config, create=True)
            self._resources.callback(self._store.close)
            self._store.serve_clients()
            self._loop = new_loop()
            self._resources.callback(self._loop.close)
            assert config.broker_ip1 is not None
            # As its records have it, so that a message has one id.
            assert config.listen_port is not None
            own_host = Host(ipaddress.ip_address(config.broker_ip1).packed, config.listen_port)
            self._broker = Broker(self._store, own_host, self._loop)
            counts = metrics_listener is not None
            self._server = BrokerServer(
                self._broker, self._loop, access_keys, counts_answers=counts, advertised=advertised
            )
            self._resources.callback(self._server.end_builds)
            self._stop = asyncio.Event()
            self._thread = threading.Thread(target=self._run, name="reput-broker", daemon=True)
            self._ready: Future[None] = Future()
            resources.pop_all()

    def __repr__(self) -> str:
        return f"<reput.serve {self.address}, store {str(self.path)!r}>"

    def start(self, topics: Mapping[str, _NewTopic], ordered_groups: Iterable[str] = ()) -> None:
        """Make topics and groups, and begin to serve; return when routes are answered.

        Raises:
            ConfigError: a topic or a group cannot have that name, or a topic that number of queues.
        """
        try:
            for topic, new in topics.items():
                self._make_topic(topic, new)
            for group in ordered_groups:
                self._broker.groups.update(group, {"groupName": group, "consumeMessageOrderly": True})
            self._broker.config_writes.write_now()
        except RefusedError as error:
            self._resources.close()
            raise ConfigError(error.remark) from None
        except BaseException:
            # Without kernels no index is built.
            self._store.close(reput=False)
            self._resources.close()
            raise
        # Clients that come at once do not wait for the compiled kernels.
        PlainMeanwhile.begin()
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            PlainMeanwhile.end()
            self.close()
            raise
        self.warm()

    def follow(self, options: tuple[str, ...]) -> None:
        """Start a follower on the store, with options of `reput follow`; it ends before the store is closed."""
        try:
            self.follower = FollowerProcess(self.path, options)
        except BaseException:
            self.close()
            raise
        self._resources.callback(self.follower.stop)

    def create_topic(self, topic: str, queues: int = DEFAULT_TOPIC_QUEUES, *, message_type: str | None = None) -> None:
        """Make a topic while the broker runs, or change the number of its queues; clients get its route at once.

        Args:
            topic: The topic.
            queues: The number of its queues.
            message_type: The type of messages that clients that speak gRPC may send to it: NORMAL, FIFO, DELAY,
                TRANSACTION, or MIXED for all of these; or PRIORITY, LITE or UNSPECIFIED. None keeps the type that it
                has, which is NORMAL at first.

        Raises:
            ConfigError: The topic cannot have that name, that number of queues, or that type.
            ClosedError: The broker is closed.
        """
        new = _new_topic(topic, (queues, message_type))
        made: Future[None] = Future()

        def make() -> None:
            writes = self._broker.config_writes
            outer, error = writes.begin_request(), None
            try:
                self._make_topic(topic, new)
            except RefusedError as refusal:
                error = ConfigError(refusal.remark)
            write = writes.end_request(None, outer)
            if error is not None:
                made.set_exception(error)
            elif write is None:
                made.set_result(None)
            else:
                write.then(written)

        def written(write: ConfigWrite) -> None:
            if write.error is None:
                made.set_result(None)
            else:
                made.set_exception(write.error)

        if not self._thread.is_alive() or self._loop.is_closed():
            raise ClosedError(f"{self.path}: the broker is closed; start another one")
        self._broker.soon(make)
        made.result(_STOP_S)

    def _make_topic(self, topic: str, new: _NewTopic) -> None:
        topics = self._broker.topics
        before = topics.find(topic)
        found = (before or {}).get("attributes")
        attributes = dict(found) if isinstance(found, dict) else {}
        further = {} if new.message_type is None else {"attributes": {**attributes, MESSAGE_TYPE: new.message_type}}
        if before is None:
            queues = new.queues or DEFAULT_TOPIC_QUEUES
            topics.create(topic, queues, queues, further=further)
        elif further or new.queues is not None:
            names = ("readQueueNums", "writeQueueNums")
            reads, writes = (new.queues or queue_count(before, name) or DEFAULT_TOPIC_QUEUES for name in names)
            topics.create(topic, reads, writes, before.get("perm", READ | WRITE), further)

    def warm(self) -> None:
        """Load the compiled kernels in another thread: that takes longer than to be ready."""
        threading.Thread(target=self._load_all, name="reput-broker-kernels", daemon=True).start()

    def _load_all(self) -> None:
        self._load_kernels()
        # The first SQL92 filter would load its parser in the broker's loop: 0.4 s in which nobody is answered.
        import_module("reput.dispatch.sql.grammar")

    def _load_kernels(self) -> None:
        with PlainMeanwhile.loading():
            self._warm_kernels()
        self._broker.has_kernels = True

    def _warm_kernels(self) -> None:
        from reput.kernels.warm import warm_store_kernels

        warm_store_kernels()
        self._store.expect_many()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        listening = await start_server(self._loop, self._server.connection, self._listener)
        self._server.start()
        pages = PageServer("/metrics", CONTENT_TYPE, Metrics(self._broker, self._server).page)
        if self._metrics_listener is not None:
            await pages.start(self._metrics_listener)
        stop_grpc = await self._start_grpc()
        self._ready.set_result(None)
        await self._stop.wait()
        await stop_server(listening)
        await pages.stop()
        # Calls that are held are answered when the broker stops.
        await asyncio.gather(stop_grpc(), self._server.stop())
        await _end_tasks()
        # What the tasks above have begun in other threads reads the store.
        await self._loop.shutdown_default_executor()

    async def _start_grpc(self) -> Callable[[], Awaitable[None]]:
        """Begin to serve clients that speak gRPC, if they have a port; return what ends that."""
        if self._grpc_listener is None or self.grpc_address is None:
            return _nothing
        from reput.broker.grpc.server import GrpcServer

        own_address = f"{self._store.config.broker_ip1}:{self.grpc_address.rpartition(':')[2]}"
        server = GrpcServer(self._broker, self.grpc_address, own_address, self._access_keys, self._certificate)
        # gRPC's transport opens sockets itself. This one has kept the port free for it.
        self._grpc_listener.close()
        await server.start()
        return server.stop

    def close(self) -> None:
        """Answer what was asked, close all connections, and close the store; a second call does nothing."""
        if self._thread.is_alive():
            self._broker.soon(self._stop.set)
            self._thread.join(_STOP_S)
            if self._thread.is_alive():
                raise AccessError(f"{self.path}: the broker has not ended within {_STOP_S:.0f} s; the store stays open")
        self._resources.close()


async def _nothing() -> None:
    """Do nothing."""


async def _end_tasks() -> None:
    """End all other tasks of the loop: a connection that was accepted just before may begin only now."""
    for _ in range(_CLOSING_TURNS):
        # A turn each: a task that is cancelled before its first one closes nothing, and sockets close in later ones.
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def serve(
    path: Path | str | None = None,
    port: int = 0,
    topics: Mapping[str, int | tuple[int, str]] | Iterable[str] | None = None,
    *,
    ordered_groups: Iterable[str] = (),
    host: str = LOCALHOST,
    allow_remote: bool = False,
    advertise: str | None = None,
    config: StoreConfig | str | Path | None = None,
    access_keys: Mapping[str, str] | str | Path | None = None,
    metrics_port: int | None = None,
    grpc_port: int | None = None,
    grpc_tls: bool | tuple[str | Path, str | Path] = False,
    follow: bool = False,
    spark: Literal[False] | None = None,
    master: str | None = None,
) -> RunningBroker:
    """Start a broker and name server for RocketMQ clients on a store; it runs in a thread until it is closed.

        with reput.serve(topics={"orders": 4}) as broker:
            print(broker.address)

    The call returns when clients get routes. Without `access_keys` anyone who reaches the port reads and writes.

    Args:
        path: The store's folder; a missing or empty one becomes a new store. None makes a temporary store, which goes
            when the broker is closed.
        port: The port; 0 takes a free one.
        topics: Topics to make: names with their numbers of queues, or names, which get 4 queues. A pair such as
            `(4, "FIFO")` has the type of messages, too (`RunningBroker.create_topic`).
        ordered_groups: Groups whose consumers of gRPC get the messages of a queue in order (consumeMessageOrderly).
        host: The address to listen on: an IPv4 address of this machine, 0.0.0.0 for all, or localhost.
        allow_remote: Allow a `host` other than this machine's loopback.
        advertise: The `host:port` that routes and message ids name; without it the address that each client dialled.
        config: A StoreConfig, or the path of a broker.conf.
        access_keys: The secret of each access key, or the path of a file with a key and its secret in each line.
            Clients sign their requests with one of them (RocketMQ's access control); others are refused.
        metrics_port: The port of `/metrics`, for Prometheus, at the same host; 0 takes a free one, None has none.
        grpc_port: Likewise for clients that speak gRPC, those of RocketMQ 5. It needs `pip install 'reput[grpc]'`.
        grpc_tls: Speak TLS on the gRPC port, in place of plain text: with the files of a certificate and of its key, as
            PEM, or, with True, with a certificate that the broker makes at each start (`grpc_certificate`).
        follow: Build the durable indexes by a follower on Spark, in a process of its own, which ends with the broker.
            Without it, or once it has ended, the broker builds them: in idle time when 64 MiB of log have none, or
            when 512 MiB have none.
        spark: False lets the follower work without Spark.
        master: The Spark master URL of the follower; `local[*]` by default.

    Returns:
        The broker; `address` is what clients take as name server.

    Raises:
        ConfigError: The address or port cannot be listened on, or a topic, group, certificate or setting is wrong.
        StoreLockedError: A live broker or another reput process holds the store.
        ReputError: Another error of opening a store; see `reput.MessageStore.open`.
    """
    # Before a store is made.
    _refuse_wrong(path, allow_remote, grpc_port, advertise)
    wanted, groups, keys = _topics(topics), _groups(ordered_groups), _access_keys(access_keys)
    given = config_from(config)
    BrokerIdentity.of(given)
    certificate = _certificate(grpc_port, grpc_tls, (host, given.broker_ip1))
    options = _follow_options(given, follow, spark, master)
    at_host = partial(listen, host, allow_remote=allow_remote, has_keys=keys is not None)
    _compile_kernels()
    broker = _open(path, given, keys, certificate, at_host, (port, metrics_port, grpc_port), advertise)
    broker.start(wanted, groups)
    if follow:
        broker.follow(options)
    return broker


def _compile_kernels() -> None:
    """Compile the kernels where that has not been done; say so first.

    To compile takes longer than clients wait for an answer. So it comes before the broker listens: until then
    connections are refused at once.
    """
    if are_cached():
        return
    log.warning(
        "compiling the kernels, once for this machine: it takes up to a minute, and the broker listens afterwards; "
        "`reput prepare` does so beforehand"
    )
    from reput.kernels.warm import warm_filter_kernels, warm_store_kernels

    # Only SQL92 filters need these. From the cache the first of them loads them fast enough.
    warm_filter_kernels()
    warm_store_kernels()


_PORTS = ("port", "metrics_port", "grpc_port")


def _open(
    path: Path | str | None,
    config: StoreConfig,
    access_keys: AccessKeys | None,
    certificate: Certificate | None,
    at_host: Callable[[int, str], socket.socket],
    ports: tuple[int, int | None, int | None],
    advertised: str | None,
) -> RunningBroker:
    """Listen, and open the store. `at_host`: listens at a port; `ports`: of the broker, of `/metrics`, of gRPC."""
    for (port, name), (other, other_name) in itertools.combinations(zip(ports, _PORTS, strict=True), 2):
        if port and port == other:
            raise ConfigError(f"{name} and {other_name} are both {port}: give each a port of its own")
    with contextlib.ExitStack() as started:
        # Before the store is opened: its records have the port.
        listener, metrics_listener, grpc_listener = (
            None if port is None else started.enter_context(at_host(port, name))
            for port, name in zip(ports, _PORTS, strict=True)
        )
        assert listener is not None
        scratch = ScratchFolder("reput-serve-") if path is None else None
        if scratch is not None:
            started.callback(scratch.remove)
        root = scratch.path / "store" if scratch is not None else Path(path or "")
        broker = RunningBroker(
            root,
            listener,
            _at_address(config, listener, advertised),
            scratch,
            access_keys=access_keys,
            metrics_listener=metrics_listener,
            grpc_listener=grpc_listener,
            certificate=certificate,
            advertised=advertised,
        )
        started.pop_all()
    return broker


def _at_address(config: StoreConfig, listener: socket.socket, advertised: str | None) -> StoreConfig:
    """Return the settings of a broker that clients reach at an address. Records and message ids have it."""
    host, port = listener.getsockname()[:2] if advertised is None else host_and_port(advertised)
    try:
        address = str(ipaddress.IPv4Address(host if host != "0.0.0.0" else LOCALHOST))  # noqa: S104 - the caller allows it
    except ValueError:
        # Records have no names of machines.
        address = LOCALHOST
    return replace(config, broker_ip1=config.broker_ip1 or address, listen_port=port)


def _refuse_wrong(path: object, allow_remote: object, grpc_port: object, advertise: object) -> None:
    if grpc_port is not None:
        _refuse_without_grpc()
    if path is not None and not (isinstance(path, str | os.PathLike) and os.fspath(path)):
        raise ConfigError(f"path={path!r:.80}: give the store's folder, or None for a temporary store")
    if type(allow_remote) is not bool:
        raise ConfigError(f"allow_remote={allow_remote!r:.80}: give True or False")
    if advertise is not None:
        if not isinstance(advertise, str):
            raise ConfigError(f"advertise={advertise!r:.80}: give host:port, such as 192.0.2.1:9876")
        host_and_port(advertise)


def _refuse_without_grpc() -> None:
    """Refuse a gRPC port where the packages of gRPC are missing.

    Raises:
        ConfigError: they are.
    """
    missing = [name for name in ("grpc", "google.protobuf") if not _is_there(name)]
    if missing:
        raise ConfigError(f"grpc_port: {' and '.join(missing)} not installed: pip install 'reput[grpc]'")


def _certificate(port: int | None, tls: object, hosts: tuple[str | None, ...]) -> Certificate | None:
    """Return the certificate of the gRPC port; None if it speaks plain text. `hosts`: where clients connect."""
    paths = tls if isinstance(tls, tuple) and len(tls) == 2 else ()
    if type(tls) is not bool and not (paths and all(isinstance(one, str | os.PathLike) and one for one in paths)):
        raise ConfigError(f"grpc_tls={tls!r:.80}: give True, False, or the files of a certificate and of its key")
    if tls is False:
        return None
    if port is None:
        raise ConfigError("TLS is for the gRPC port: give that, too (--grpc-port, grpc_port=)")
    if not _is_there("cryptography"):
        raise ConfigError("grpc_tls: cryptography is not installed: pip install 'reput[grpc]'")
    from reput.broker.grpc.certificates import own_certificate, read_certificate

    if paths:
        return read_certificate(*paths)
    names = ("localhost", LOCALHOST, socket.gethostname(), *hosts)
    return own_certificate(name for name in names if name)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _follow_options(config: StoreConfig, follow: bool, spark: object, master: str | None) -> tuple[str, ...]:
    """Return the options of `reput follow` for a broker's settings."""
    if follow not in (False, True):
        raise ConfigError(f"follow={follow!r:.80}: give True or False")
    if spark not in (False, None) or (spark is False and master is not None):
        raise ConfigError("spark: a broker's follower is a process of its own. Give spark=False, a master, or neither")
    if not follow and (spark is not None or master is not None):
        raise ConfigError("spark and master are the follower's: give --follow (follow=True), too")
    options = ["--no-spark"] if spark is False else []
    options += [f"--master={master}"] if master is not None else []
    options += ["--force-setting"] if config.force_setting else []
    for name, rocketmq_name in rocketmq_names().items():
        value = getattr(config, name)
        if value is not None:
            options.append(f"--set={rocketmq_name}={str(value).lower() if isinstance(value, bool) else value}")
    return tuple(options)


def _topics(given: Mapping[str, int | tuple[int, str]] | Iterable[str] | None) -> dict[str, _NewTopic]:
    """Return the topics to make."""
    if isinstance(given, str | bytes) or not (given is None or isinstance(given, Iterable)):
        raise ConfigError(
            f'topics={given!r:.80}: give names in a list, or with their numbers of queues: {{"orders": 4}}'
        )
    wanted = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given or ())
    return {topic: _new_topic(topic, what) for topic, what in wanted.items()}


def _groups(given: Iterable[str]) -> list[str]:
    """Return the groups to make."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"ordered_groups={given!r:.80}: give names in a list")
    return list(given)


def _new_topic(topic: object, given: object) -> _NewTopic:
    """Return a topic to make; refuse what cannot be one."""
    queues, message_type = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not isinstance(topic, str) or (queues is not None and type(queues) is not int):
        raise ConfigError(f"topics: {topic!r:.80}: {queues!r:.20}: give names with whole numbers of queues")
    if (fault := topic_fault(topic)) is not None:
        raise ConfigError(f"topic {topic!r:.140}: {fault}")
    if queues is not None and not 1 <= queues <= MAX_QUEUES:
        raise ConfigError(f"topic {topic}: {queues} queues; give 1 to {MAX_QUEUES}")
    if message_type is not None and message_type not in MESSAGE_TYPES:
        types = ", ".join(sorted(MESSAGE_TYPES))
        raise ConfigError(f"topic {topic}: type of messages {message_type!r:.40}: give one of {types}")
    return _NewTopic(queues, message_type)


def _access_keys(given: Mapping[str, str] | str | Path | None) -> AccessKeys | None:
    if given is None:
        return None
    if not isinstance(given, Mapping | str | os.PathLike):
        # No secret gets into a text that may be logged.
        raise ConfigError(f"access_keys: a {type(given).__name__}: give the secret of each key, or the path of a file")
    return AccessKeys(given) if isinstance(given, Mapping) else AccessKeys(read_access_keys(given), given)
