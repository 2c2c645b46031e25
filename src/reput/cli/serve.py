"""`reput serve`: a broker and name server for RocketMQ clients on a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from reput.cli.shared import log_lines, options, output
from reput.cli.shared.signals import INTERRUPTED, sigterm_end
from reput.config import DEFAULT_TOPIC_QUEUES
from reput.formats.java.java_numbers import parse_whole

if TYPE_CHECKING:
    from reput.broker.serve import RunningBroker

_PORT = 9876


@click.command()
@options.store_argument
@click.option(
    "--port", type=options.WholeNumber(0, 65535), default=_PORT, show_default=True, help="The port; 0 takes any."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The IPv4 address to listen on; 0.0.0.0 takes all."
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Allow a --host that other machines reach. Only --access-keys checks who comes.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address that routes name, if clients come through a port mapping.  [default: the one each has dialled]",
)
@click.option(
    "--access-keys",
    type=options.FILE_PATH,
    help="Serve only clients that sign with a key of this file: a key and its secret in each line.",
)
@click.option(
    "--metrics-port",
    type=options.WholeNumber(0, 65535),
    help="Serve /metrics for Prometheus at this port; 0 takes any.",
)
@click.option(
    "--grpc-port",
    type=options.WholeNumber(0, 65535),
    help="Serve clients of RocketMQ 5 that speak gRPC at this port; 0 takes any. RocketMQ's proxy has 8081.",
)
@click.option(
    "--grpc-tls",
    is_flag=True,
    help="Speak TLS on the gRPC port, with a certificate that is made at each start, if none is given.",
)
@click.option(
    "--grpc-tls-cert",
    type=options.FILE_PATH,
    help="The file of a certificate for TLS on the gRPC port, as PEM, followed by its issuers.",
)
@click.option(
    "--grpc-tls-key",
    type=options.FILE_PATH,
    help="The file of that certificate's key, as PEM, without a password.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Build the durable indexes by a follower on Spark, in a process of its own, as `reput follow`.",
)
@click.option("--master", metavar="URL", help="The Spark master of --follow.  [default: local[*]]")
@click.option("--spark/--no-spark", default=None, help="--no-spark lets --follow work without Spark and Java.")
@click.option(
    "--log-format",
    type=click.Choice(log_lines.FORMATS),
    default=log_lines.TEXT,
    show_default=True,
    help="The form of the log on stderr: lines for people, or a JSON object each.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:QUEUES[:TYPE]]",
    help=f"Make a topic, with {DEFAULT_TOPIC_QUEUES} queues by default. Clients of gRPC send only messages of its "
    "TYPE: NORMAL (default), FIFO, DELAY, TRANSACTION, PRIORITY, LITE, MIXED or UNSPECIFIED. May be given again for "
    "another topic.",
)
@click.option(
    "--ordered-group",
    "ordered_groups",
    multiple=True,
    metavar="NAME",
    help="Give consumers of gRPC of this group the messages of a queue in their order: a queue gives no further one "
    "until all that it has given are acknowledged (consumeMessageOrderly). May be given again.",
)
@options.config_options
@options.force_setting_option
@options.json_option
def serve(
    store: str,
    port: int,
    host: str,
    allow_remote: bool,
    advertise: str | None,
    access_keys: str | None,
    metrics_port: int | None,
    grpc_port: int | None,
    grpc_tls: bool,
    grpc_tls_cert: str | None,
    grpc_tls_key: str | None,
    follow: bool,
    master: str | None,
    spark: bool | None,
    log_format: str,
    topics: tuple[str, ...],
    ordered_groups: tuple[str, ...],
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Serve RocketMQ clients on STORE until Ctrl-C or SIGTERM, as name server and as broker. This command writes.

    Clients take the printed address as their name server. A missing or empty folder becomes a new store. Topics are
    made by --topic, by clients, or by the first message that is sent to them.

    Served: sends, transactions, delays, timers, push, pull and pop. See the page "Serve RocketMQ clients".

    \b
    reput serve /data/store --port 9876 --topic orders:8 --topic payments
    reput serve /data/store --grpc-port 8081 --topic orders:4:FIFO --ordered-group billing
    reput serve /data/store --host 0.0.0.0 --allow-remote
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.broker.server import MAX_CONNECTIONS
    from reput.broker.wire.listener import raise_handle_limit
    from reput.kernels.compiled.cache import are_cached

    raise_handle_limit(MAX_CONNECTIONS)
    # To compile takes a minute or more, and nobody is served before it ends.
    compiles, broker = not are_cached(), None
    try:
        with (
            log_lines.logged("reput.broker", log_format),
            sigterm_end(lambda: compiles and broker is None) as ended,
            reput.serve(
                store,
                port,
                _topics(topics),
                ordered_groups=ordered_groups,
                host=host,
                allow_remote=allow_remote,
                advertise=advertise,
                config=options.config_of(config_path, assignments),
                access_keys=access_keys,
                metrics_port=metrics_port,
                grpc_port=grpc_port,
                grpc_tls=_tls(grpc_tls, grpc_tls_cert, grpc_tls_key),
                follow=follow,
                spark=_spark(spark, follow),
                master=master,
            ) as broker,
        ):
            _show_addresses(broker, store, as_json)
            ended.wait()
    except KeyboardInterrupt:
        output.say("interrupted: all connections are closed, and the store is closed, too")
        return INTERRUPTED
    return 0


def _show_addresses(broker: RunningBroker, store: str, as_json: bool) -> None:
    if as_json:
        further = {"metrics": broker.metrics_address, "grpc": broker.grpc_address}
        named = {name: address for name, address in further.items() if address is not None}
        output.emit_json({"address": broker.address, "store": str(Path(store).absolute()), **named})
    else:
        output.show(f"name server and broker: {broker.address}")
        if broker.grpc_address is not None:
            output.show(f"gRPC{'' if broker.grpc_certificate is None else ' with TLS'}: {broker.grpc_address}")
        if broker.metrics_address is not None:
            output.show(f"metrics: http://{broker.metrics_address}/metrics")
    output.flush()


def _tls(is_on: bool, cert: str | None, key: str | None) -> bool | tuple[str, str]:
    if (cert is None) != (key is None):
        raise click.UsageError("--grpc-tls-cert and --grpc-tls-key: give both, or neither")
    return is_on if cert is None or key is None else (cert, key)


def _spark(given: bool | None, follow: bool) -> Literal[False] | None:
    if given and not follow:
        raise click.UsageError("--spark is about the follower: give --follow, too")
    return False if given is False else None


def _topics(given: tuple[str, ...]) -> dict[str, int | tuple[int | None, str] | None]:
    topics: dict[str, int | tuple[int | None, str] | None] = {}
    for text in given:
        name, _, rest = text.partition(":")
        queues, has_type, message_type = rest.partition(":")
        has_count = text != name and (queues or not has_type)
        count = parse_whole(queues, 32) if has_count else None
        if not name or (has_count and count is None):
            words = "give NAME, NAME:QUEUES or NAME:QUEUES:TYPE, such as orders:8:FIFO"
            raise click.BadParameter(f"{text!r}: {words}", param_hint="--topic")
        if name in topics:
            raise click.BadParameter(f"topic {name} is named twice", param_hint="--topic")
        topics[name] = (count, message_type) if has_type else count
    return topics
