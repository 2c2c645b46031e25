"""`reput convert`: the queues of a store in another kind."""

from __future__ import annotations

import click

from reput.cli import options, output
from reput.cli.rebuild import show_report

_INTERRUPTED = 130


@click.command()
@click.option(
    "--to",
    type=click.Choice(["file", "rocksdb", "both"]),
    required=True,
    help="The kind of queues that the store shall have; `both` is RocketMQ's double write.",
)
@click.option("--salvage", is_flag=True, help="Go on behind damaged bytes, and list every gap.")
@options.job
def convert(store: str, job: options.JobOptions, to: str, salvage: bool, as_json: bool) -> int:
    """Make the ConsumeQueues of STORE ones of another kind: files, RocksDB, or both.

    Stop the broker first. The new queues are built from the log beside the old ones, held against it once more, and
    swapped in: until then, and after any error, the old ones are live. Killed, it is begun again by the same command.
    Queues keep their numbers. Tell the broker afterwards: storeType, or rocksdbCQDoubleWriteEnable for both.

    \b
    reput convert /data/store --to rocksdb
    reput convert /data/store --to both --config conf/broker.conf
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.progress import progress

    try:
        with progress(job.quiet) as listener:
            report = reput.convert(store, to=to, salvage=salvage, listener=listener, **job.arguments())  # type: ignore[arg-type]
    except KeyboardInterrupt:
        output.say("interrupted; the queues are as they were unless the swap had begun: the next command finishes it")
        return _INTERRUPTED
    report.crooked_queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    with output.reporting("The conversion itself is done: the new queues are live"):
        if as_json:
            output.emit_json({"ok": True, "to": to, **report.to_dict()})
        else:
            show_report(report, job.quiet)
    return 0
