"""`reput convert`: change the kind of a store's queues."""

from __future__ import annotations

import click

from reput.cli.rebuild import show_dry_run, show_report
from reput.cli.shared import options, output
from reput.cli.shared.signals import exit_code_of, sigterm_as_interrupt
from reput.formats.index.index_kinds import INDEX_TARGETS
from reput.formats.queue.queue_kinds import TARGETS


@click.command()
@click.option(
    "--to",
    type=click.Choice(list(TARGETS)),
    help="The new kind of queues. `both` is RocketMQ's double write.",
)
@click.option(
    "--index",
    type=click.Choice(list(INDEX_TARGETS)),
    help="The new kind of index by key: IndexFiles, RocksDB, or both. Give it instead of --to.",
)
@click.option(
    "--source",
    type=click.Choice(["log", "queues"]),
    default="log",
    show_default=True,
    help="`log` makes the queues from the records, which prove every entry. `queues` copies the entries of the other "
    "kind, which is quicker, and works if an old part of the log is damaged. Wrong entries stay wrong.",
)
@click.option("--salvage", is_flag=True, help="Continue after damaged bytes, and list every gap (exit code 0).")
@options.dry_run_option("built and removed")
@options.force_setting_option
@options.job
def convert(
    store: str,
    job: options.JobOptions,
    to: str | None,
    index: str | None,
    source: str,
    salvage: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change the kind of the ConsumeQueues of STORE, or of its index by key: files, RocksDB, or both.

    Stop the broker first. The command builds new queues next to the old ones, compares them with their source, and
    swaps them in. Until the swap, and after any error, the old queues are live. After a kill or Ctrl-C run the command
    again: it starts from the beginning, or finishes a swap that had begun. Queues keep their numbers. If the store
    already has these queues, the command does nothing. Afterwards set storeType in the broker.conf, or
    rocksdbCQDoubleWriteEnable for both.

    \b
    reput convert /data/store --to rocksdb --dry-run
    reput convert /data/store --to rocksdb
    reput convert /data/store --to both --config conf/broker.conf
    reput convert /data/store --to file --source queues
    reput convert /data/store --index rocksdb
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.shared.progress_bars import progress

    if (to is None) == (index is None):
        raise click.UsageError("give one of --to and --index" + ("" if to is None else ", not both"))
    if dry_run:
        return _dry_run(store, job, to, index, source, salvage, as_json)
    try:
        with sigterm_as_interrupt(), progress(job.quiet) as listener:
            report = reput.convert(
                store,
                to=to,  # type: ignore[arg-type]
                index=index,  # type: ignore[arg-type]
                source=source,  # type: ignore[arg-type]
                salvage=salvage,
                listener=listener,
                **job.arguments(),
            )
    except KeyboardInterrupt as stop:
        output.say(
            "interrupted; the queues are unchanged unless the swap had begun: the next command that changes the store "
            "finishes it. Run the same command again: it starts from the beginning"
        )
        return exit_code_of(stop)
    if not report.built and not as_json:
        output.say(" ".join(report.notes))
        return 0
    report.out_of_order_queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    with output.reporting(f"The conversion itself is done: the new {'queues are' if to else 'index is'} live"):
        if as_json:
            output.emit_json(
                {"ok": True, "to": to, "index": index, "source": source, "from": source, **report.to_dict()}
            )
        else:
            show_report(report, job.quiet)
    return 0


def _dry_run(
    store: str, job: options.JobOptions, to: str | None, index: str | None, source: str, salvage: bool, as_json: bool
) -> int:
    """Show what a conversion would do, which may be nothing; change nothing."""
    from reput.pipeline.convert.convert import ConvertOptions, metadata_warnings, nothing_to_convert
    from reput.store.disk.layout import find_store

    wanted = ConvertOptions(to, source, salvage=salvage, index=index)
    done = nothing_to_convert(store, wanted, job.config)
    if done is None:
        warnings = metadata_warnings(find_store(store, job.config), to, job.config) if to is not None else []
        return show_dry_run(store, job, wanted.rebuild_options(), as_json, warnings)
    if as_json:
        output.emit_json({"ok": True, "dry_run": True, **done.to_dict()})
    else:
        output.say(" ".join(done.notes))
    return 0
