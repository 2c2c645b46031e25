"""`reput check`: compare the indexes with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.shared import options, output

if TYPE_CHECKING:
    from reput.pipeline.check.report import CheckReport

_WRONG_TYPES = ("not-a-folder", "not-a-file")


@click.command()
@options.job
def check(store: str, job: options.JobOptions, as_json: bool) -> int:
    """Compare the ConsumeQueues and IndexFiles of STORE with its CommitLog. The command changes nothing.

    Every entry must agree with its record, every message must have its entry, queues must be continuous, and the chains
    of the IndexFiles complete. A finding is damage, a leftover (a crash leaves it, and RocketMQ repairs it when it
    opens the store), or a note. If a given size contradicts the files, that is the first finding: correct the setting.
    The files are then checked by their own size.

    A program, a follower or a broker may have STORE open. The log is then checked up to the confirmed offset (with a
    broker: up to the last record that its queues refer to), and the indexes up to the offset where they are complete.

    Exit code 0: sound; 1: damage, or a setting contradicts the files; 2: the store could not be read. `reput rebuild`
    repairs damaged indexes.

    \b
    reput check /data/store
    reput check /data/store --config conf/broker.conf --json
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.shared.progress_bars import progress

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
        f"{output.counted(report.index_items, 'item')} in {output.counted(report.index_files, 'IndexFile')}"
        f"{_entries_text(report)}; "
        f"checked in {report.seconds['total']:.1f} s"
    )
    if not job.quiet:
        for text in (*(f"assumed: {one}" for one in report.assumed), *(f"note: {one}" for one in report.notes)):
            output.say(text)
    output.show(_verdict(report))
    return report.exit_code


def _entries_text(report: CheckReport) -> str:
    counted = output.counted(report.index_entries, "entry", "entries")
    return f", {counted} in the index database" if report.index_entries else ""


def _verdict(report: CheckReport) -> str:
    """Return the verdict, and the remedy."""
    if wrong := report.wrong_settings:
        correct = "a setting contradicts the files: correct it" if len(wrong) == 1 else "correct the settings above"
        is_of_size = all(one.file != report.store for one in wrong)
        judged = "Judged by the size of its own files" if is_of_size else "Apart from that"
        return f"{correct}. {judged} the store is {_verdict_on_files(report)}"
    return _verdict_on_files(report)


def _verdict_on_files(report: CheckReport) -> str:
    if report.sound:
        return "sound" if report.indexes_to is None else "sound up to here; the store is in use"
    from reput.pipeline.check.rules import DAMAGE, RULES, Group

    damage = [RULES[one.rule] for one in report.findings if one.severity == DAMAGE]
    if RULES["log-path-missing"] in damage:
        return "not sound: a folder of the log is not there. Mount its disk, or correct the setting, and check again"
    in_log = [rule for rule in damage if rule.group is Group.LOG]
    if not report.messages and any(rule.lacks_record for rule in damage):
        return (
            "not sound: the log has no record, and the indexes have. Is its disk mounted, and does storePathCommitLog "
            "name another folder? Where it is meant, `reput rebuild --empty-log` makes the indexes empty, too"
        )
    for name in _WRONG_TYPES:
        if RULES[name] in damage:
            return f"not sound: {RULES[name].meaning}. Move it away, and check again"
    if all(rule.group is Group.METADATA for rule in damage):
        return "not sound: topics, groups or offsets cannot be read; the log and its indexes agree, so do not rebuild"
    if not in_log and RULES["own-file-damaged"] in damage:
        return "not sound: remove the damaged file of the folder `reput`, then build the indexes with `reput rebuild`"
    if not in_log:
        return "not sound: `reput rebuild` builds the indexes again from the log"
    look = "Look with `reput dump log STORE --physical-offset OFFSET`"
    if len(in_log) == len(damage):
        return (
            "not sound: the log itself is damaged; the indexes agree with what is left of it, so a rebuild brings "
            f"nothing back. {look}, and restore the file from a replica or a backup"
        )
    return (
        f"not sound: the log itself is damaged. {look}, restore the file from a replica or a backup, or build from all "
        "good records with `reput rebuild --salvage`"
    )
