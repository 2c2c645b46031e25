"""`reput check`: whether the indexes are what the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli import options, output

if TYPE_CHECKING:
    from reput.store.disk.report import CheckReport

DAMAGE = "damage"


@click.command()
@options.job
def check(store: str, job: options.JobOptions, as_json: bool) -> int:
    """Hold the ConsumeQueues and IndexFiles of STORE against its CommitLog; nothing is changed.

    Every entry must say what its record says, every message must have its entry, queues must be continuous, and the
    chains of the IndexFiles whole and complete. What was found is damage, or a leftover (what RocketMQ leaves after a
    crash and mends when it opens the store), or a note. A given size that the files contradict comes first, as a
    setting: correct it. The files are then judged by their own size.

    A program, a follower or a broker may have STORE open. Then the log is checked up to what is confirmed (beside a
    broker: up to the last record that its queues refer to), and the indexes up to where they are complete.

    Exit code 0: sound; 1: damage was found, or a setting contradicts the files; 2: the store could not be looked at.
    `reput rebuild` mends damaged indexes.
    """
    import reput
    from reput.cli.progress_bars import progress

    with progress(job.quiet) as listener:
        report = reput.check(store, listener=listener, **job.arguments())
    if as_json:
        output.emit_json({"ok": report.exit_code == 0, **report.to_dict()})
        return report.exit_code
    rows = [
        (one.severity, one.rule, one.count, one.file, "" if one.offset is None else one.offset, one.detail)
        for one in report.findings
    ]
    output.show_table("Findings", ("severity", "rule", "count", "file", "offset", "what"), rows)
    output.show(
        f"log {report.log_min_offset} to {report.log_max_offset}: {output.counted(report.messages, 'record')}, "
        f"{output.counted(report.queue_entries, 'entry', 'entries')} for "
        f"{output.counted(report.queue_messages, 'message')} in {output.counted(report.queues, 'queue')}, "
        f"{output.counted(report.index_items, 'item')} in {output.counted(report.index_files, 'IndexFile')}; "
        f"looked at in {report.seconds['total']:.1f} s"
    )
    if not job.quiet:
        for text in (*(f"assumed: {one}" for one in report.assumed), *(f"note: {one}" for one in report.notes)):
            output.say(text)
    output.show(_verdict(report))
    return report.exit_code


def _verdict(report: CheckReport) -> str:
    """What it comes to, and what helps."""
    if wrong := report.wrong_settings:
        correct = "a setting contradicts the files: correct it" if len(wrong) == 1 else "correct the settings above"
        return f"{correct}. Judged by the size of its own files the store is {_verdict_on_files(report)}"
    return _verdict_on_files(report)


def _verdict_on_files(report: CheckReport) -> str:
    if report.sound:
        return "sound" if report.indexes_to is None else "sound up to here; the store is in use"
    damage = [one for one in report.findings if one.severity == DAMAGE]
    in_log = [one for one in damage if one.rule.startswith("log-")]
    if not report.messages and any(one.rule.endswith(("-without-record", "-past-end")) for one in damage):
        return (
            "not sound: the log has no record, and the indexes have. Is its disk mounted, and does storePathCommitLog "
            "name another folder? Where it is meant, `reput rebuild --empty-log` makes the indexes empty, too"
        )
    if not in_log:
        return "not sound: `reput rebuild` builds the indexes again from the log"
    rest = "" if len(in_log) < len(damage) else "; the indexes agree with what is left of it"
    return (
        f"not sound: the log itself is damaged{rest}. Look with `reput dump log STORE -o OFFSET`, restore the file "
        "from a replica or a backup, or build from all good records with `reput rebuild --salvage`"
    )
