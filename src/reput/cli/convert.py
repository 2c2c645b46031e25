"""`reput convert`: the queues of a store in another kind."""

from __future__ import annotations

import click

from reput.cli import options, output
from reput.cli.rebuild import show_dry_run, show_report
from reput.formats.queue_kinds import TARGETS

_INTERRUPTED = 130


@click.command()
@click.option(
    "--to",
    type=click.Choice(list(TARGETS)),
    required=True,
    help="The kind of queues that the store shall have; `both` is RocketMQ's double write.",
)
@click.option(
    "--source",
    type=click.Choice(["log", "queues"]),
    default="log",
    show_default=True,
    help="`log`: from the records, which prove every entry: right whatever the old queues are. `queues`: from the "
    "entries of the other kind, which are trusted: quicker, and for a log whose old part is damaged.",
)
@click.option("--salvage", is_flag=True, help="Go on behind damaged bytes, and list every gap.")
@options.dry_run_option
@options.force_setting_option
@options.job
def convert(
    store: str, job: options.JobOptions, to: str, source: str, salvage: bool, dry_run: bool, as_json: bool
) -> int:
    """Make the ConsumeQueues of STORE ones of another kind: files, RocksDB, or both.

    Stop the broker first. The new queues are built beside the old ones, held once more against what they come from, and
    swapped in: until then, and after any error, the old ones are live. If the command is killed or you press Ctrl-C,
    run it again: it starts from the beginning, and finishes a swap that had begun. Queues keep their numbers. A store
    that has these queues already is left alone. Tell the broker afterwards: storeType, or rocksdbCQDoubleWriteEnable
    for both.

    \b
    reput convert /data/store --to rocksdb --dry-run
    reput convert /data/store --to rocksdb
    reput convert /data/store --to both --config conf/broker.conf
    reput convert /data/store --to file --source queues
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.progress_bars import progress

    if dry_run:
        from reput.pipeline.convert.convert import convert_options

        return show_dry_run(store, job, convert_options(to, source, salvage=salvage), as_json)
    try:
        with progress(job.quiet) as listener:
            report = reput.convert(
                store,
                to=to,  # type: ignore[arg-type]
                source=source,  # type: ignore[arg-type]
                salvage=salvage,
                listener=listener,
                **job.arguments(),
            )
    except KeyboardInterrupt:
        output.say(
            "interrupted; the queues are as they were unless the swap had begun: the next command that changes the "
            "store finishes it. Run the same command again: it starts from the beginning"
        )
        return _INTERRUPTED
    if not report.built and not as_json:
        output.say(" ".join(report.notes))
        return 0
    report.crooked_queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    with output.reporting("The conversion itself is done: the new queues are live"):
        if as_json:
            output.emit_json({"ok": True, "to": to, "source": source, "from": source, **report.to_dict()})
        else:
            show_report(report, job.quiet)
    return 0
