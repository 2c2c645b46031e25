"""`reput rebuild`: build both indexes from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.shared import options, output
from reput.cli.shared.signals import exit_code_of, sigterm_as_interrupt
from reput.formats.queue.queue_kinds import KINDS_IN_WORDS
from reput.texts import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.config import StoreConfig
    from reput.pipeline.build.rebuild.options import RebuildOptions
    from reput.pipeline.build.rebuild_report import QueueOddity, RebuildReport


@click.command()
@click.option("--only", type=click.Choice(["queue", "index"]), help="Build only the queues, or only the IndexFiles.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    help="Build the queues of this topic alone. IndexFiles have all topics; leave them out with --only queue. May be "
    "given again.",
)
@click.option(
    "--skip-topic",
    "skip_topics",
    multiple=True,
    help="Keep the queues of this topic as they are. May be given again.",
)
@click.option(
    "--index-tags",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Give tags index items, as RocketMQ does since 5.4.0. auto does as the present IndexFiles do.",
)
@click.option("--salvage", is_flag=True, help="Continue after damaged bytes, and list every gap (exit code 0).")
@options.dry_run_option("built and removed")
@click.option("--empty-log", is_flag=True, help="If the log has no record, replace the indexes with empty ones.")
@options.force_setting_option
@options.job
def rebuild(
    store: str,
    job: options.JobOptions,
    only: str | None,
    topics: tuple[str, ...],
    skip_topics: tuple[str, ...],
    index_tags: str,
    salvage: bool,
    empty_log: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Build the ConsumeQueues and IndexFiles of STORE again from its CommitLog.

    Stop the broker first. The command builds new indexes next to the old ones, proves that they are complete, and swaps
    them in. Until the swap, and after any error, the old indexes are untouched. The command only reads the log.

    A half-written record at the log's end is ignored and reported. Damage in the middle of the log, with good records
    after it, ends the run with exit code 1. --salvage continues after it.

    \b
    reput rebuild /data/store --dry-run
    reput rebuild /data/store
    reput rebuild /data/store --config conf/broker.conf
    reput rebuild /data/store --only queue -t orders -t payments
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.shared.progress_bars import progress

    if dry_run:
        from reput.pipeline.build.rebuild.options import RebuildOptions

        return show_dry_run(
            store, job, RebuildOptions(only, topics, skip_topics, index_tags, salvage, empty_log), as_json
        )
    try:
        with sigterm_as_interrupt(), progress(job.quiet) as listener:
            report = reput.rebuild(
                store,
                only=only,  # type: ignore[arg-type]
                topics=topics,
                skip_topics=skip_topics,
                index_tags=index_tags,  # type: ignore[arg-type]
                salvage=salvage,
                empty_log=empty_log,
                listener=listener,
                **job.arguments(),
            )
    except KeyboardInterrupt as stop:
        output.say(_interrupted(store, job.config))
        return exit_code_of(stop)
    report.out_of_order_queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    with output.reporting("The rebuild itself is done: the new indexes are live"):
        if as_json:
            output.emit_json({"ok": True, **report.to_dict()})
        else:
            show_report(report, job.quiet)
    return 0


def show_dry_run(
    store: str, job: options.JobOptions, wanted: RebuildOptions, as_json: bool, warnings: Sequence[str] = ()
) -> int:
    """Show what a rebuild or a conversion would do, and further warnings; change nothing."""
    from reput.pipeline.build.rebuild.dry_run import dry_rebuild

    run = dry_rebuild(store, job.config, wanted)
    run.warnings += warnings
    if as_json:
        output.emit_json({"ok": True, "dry_run": True, **run.to_dict()})
        return 0
    counted, size = output.counted, size_text
    if not run.built:
        output.show("would build nothing")
        if not job.quiet:
            output.say_lines("note", run.notes)
        return 0
    output.show(f"would read {size(run.log_bytes)} of log, about {counted(run.messages, 'message')}")
    parts = {
        "queue": f"about {counted(run.queue_entries, 'entry', 'entries')} ({' and '.join(run.kinds)} queues)",
        "index": f"about {counted(run.index_items, 'item')} in {counted(run.index_files, 'IndexFile')}"
        + (f", about {counted(run.index_entries, 'entry', 'entries')} in the index database" * bool(run.index_entries)),
    }
    output.show(f"would build {' and '.join(run.built)}: {', '.join(parts[one] for one in run.built)}")
    if tuple(run.kinds) in KINDS_IN_WORDS:
        places = ", ".join(f"{kind} queues to {folder}" for kind, folder in run.queue_folders.items())
        output.show(f"would put {places}{''.join(f' ({setting})' for setting in run.placement)}")
    for one in run.replaced:
        output.show(f"would replace {one.folder}: {counted(one.files, 'file')}, {size(one.bytes)}")
    output.show(f"would need about {size(run.bytes_needed)} on the disk, where {size(run.bytes_free)} are free")
    if not job.quiet:
        output.say_lines("assumed", run.assumed)
        output.say_lines("note", run.notes)
    output.say_lines("warning", run.warnings)
    output.say(
        "dry run: nothing was changed. Counts are estimates from the first records of the newest log file; the rest of "
        "the log is not decoded, so damage in it would still stop the run"
    )
    return 0


def _interrupted(store: str, config: StoreConfig) -> str:
    from reput.store.disk.layout import find_store
    from reput.store.owner.swap import pending_swap

    if pending_swap(find_store(store, config)):
        return "interrupted while the new indexes were swapped in: the next `reput rebuild` finishes that first"
    return "interrupted; the indexes are unchanged. Run the same command again: it starts from the beginning"


def show_report(report: RebuildReport, quiet: bool = False) -> None:
    """Show the report of a rebuild as text: tables on stdout, findings on stderr."""
    rows = [
        (output.name_in_table(topic.topic), topic.queues, topic.entries, topic.min_offset, topic.max_offset)
        for topic in report.topics[: output.TOPICS_SHOWN]
    ]
    output.show_table("Queues", ("topic", "queues", "entries", "min offset", "max offset"), rows)
    output.show_rest(len(report.topics) - output.TOPICS_SHOWN, "more topics")
    for text in _summary(report):
        output.show(text)
    if not quiet:
        output.say_lines("assumed", report.assumed)
        output.say_lines("note", report.notes)
    output.say_lines("kept", [f"queue {text}" for text in report.retained_queues])
    output.say_lines("gap", [f"{gap.file} log offset {gap.begin}: {gap.why}, {gap.size} bytes" for gap in report.gaps])
    output.say_lines("queue", [_out_of_order(queue) for queue in report.out_of_order_queues])
    output.say_lines("warning", report.warnings)


def _out_of_order(queue: QueueOddity) -> str:
    return (
        f"{queue.topic}/{queue.queue_id}: {queue.repeats} repeats left out, {queue.blanks} missing offsets filled with "
        f"pre-blank entries, {queue.restarts} restarts ({queue.dropped} older entries dropped)"
    )


def _summary(report: RebuildReport) -> list[str]:
    counted = output.counted
    if not report.built:
        return ["built nothing"]
    seconds = max(report.seconds["total"], 1e-3)
    stages = ", ".join(f"{name} {took:.1f}" for name, took in report.seconds.items() if name != "total")
    rates = f"{report.messages / seconds:,.0f} messages/s, {size_text(report.log_bytes / seconds)}/s"
    log = (
        f"log {report.log_min_offset} to {report.log_max_offset}, {size_text(report.log_bytes)}: "
        f"{counted(report.messages, 'message')} ({report.prepared:,} prepared, {report.rolled_back:,} rolled back)"
    )
    parts = {
        "queue": f"{counted(report.queue_entries, 'entry', 'entries')} in {counted(report.queues, 'queue')}",
        "index": " and ".join(_index_parts(report)),
    }
    built = f"built {' and '.join(report.built)}: {', '.join(parts[one] for one in report.built)}"
    return [log, built, f"{seconds:.1f} s ({stages}): {rates}"]


def _index_parts(report: RebuildReport) -> list[str]:
    counted = output.counted
    files = f"{counted(report.index_items, 'item')} in {counted(len(report.index_files), 'IndexFile')}"
    entries = f"{counted(report.index_entries, 'entry', 'entries')} in the index database"
    return [files] * bool(report.index_files or not report.index_entries) + [entries] * bool(report.index_entries)
