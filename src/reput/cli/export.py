"""`reput export`: export the messages of a store as Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput.cli.shared import options, output
from reput.cli.shared.signals import exit_code_of, sigterm_as_interrupt
from reput.texts import size_text

if TYPE_CHECKING:
    from reput.connect.export import ExportGap, ExportReport


@click.command()
@click.option("--folder", required=True, metavar="FOLDER", help="The folder of the files.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic. May be given again.")
@click.option("--columns", help="Only these columns, separated by commas.  [default: all]")
@click.option(
    "--body",
    type=click.Choice(["decoded", "raw"]),
    help="Bodies as a consumer gets them, or as they are stored.  [default: decoded, or as the export there has them]",
)
@click.option("--salvage", is_flag=True, help="Continue after damaged bytes, and list every gap (exit code 0).")
@options.export_job
def export(
    store: str,
    job: options.JobOptions,
    folder: str,
    topics: tuple[str, ...],
    columns: str | None,
    body: str | None,
    salvage: bool,
    as_json: bool,
) -> int:
    """Export the messages of STORE as Parquet, by topic and day of store time (UTC).

    Files are in FOLDER/topic=NAME/day=YYYY-MM-DD/; Spark, DuckDB, pandas, Polars and others read FOLDER as one table.
    The plan and the markers of finished ranges are next to it, in _FOLDER.reput. After a run that was stopped the next
    run continues, and a later run adds the newer messages; no range is exported twice. The command changes nothing in
    STORE, and another process may write it. A body that cannot be decompressed is null, and bodyError says why. Damage
    in the middle of the log ends the run with exit code 1; finished files stay, and --salvage continues after the
    damage. If the log has lost its end, what is left is exported, and the exit code is 1 without --salvage.

    \b
    reput export /data/store --folder /lake/messages
    reput export /data/store --folder /lake/orders -t orders --columns topic,body,tags,storeTimestamp
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.cli.shared.progress_bars import progress

    chosen: dict[str, Any] = {"topics": topics, "columns": () if columns is None else columns.split(",")}
    chosen |= {"body": body, "salvage": salvage}
    try:
        with sigterm_as_interrupt(), progress(job.quiet) as listener:
            report = reput.export(
                store, folder, spark=job.spark, master=job.spark_master, config=job.config, listener=listener, **chosen
            )
    except KeyboardInterrupt as stop:
        output.say(f"interrupted; run it again with --folder {folder} to continue")
        return exit_code_of(stop)
    with output.reporting("The export itself is done"):
        is_ok = salvage or not report.lost_end
        if as_json:
            output.emit_json({"ok": is_ok, **report.to_dict()})
        else:
            _show(report, job.quiet)
        if report.lost_end:
            output.say(f"damage: {report.lost_end}")
    return 0 if is_ok else 1


def _before(gap: ExportGap) -> str:
    return f", skipped by an earlier run (marker {gap.marker})" if gap.marker else ""


def _show(report: ExportReport, quiet: bool) -> None:
    counted = output.counted
    output.show(
        f"{counted(report.messages, 'message')} in {counted(report.files, 'file')}, {size_text(report.bytes)}: "
        f"{report.folder}"
    )
    if report.ranges_before:
        output.show(
            f"{counted(report.messages_before, 'message')} were there before; the export ends at log offset "
            f"{report.log_end}"
        )
    gaps = [f"{gap.file} log offset {gap.begin}: {gap.why}, {gap.size} bytes{_before(gap)}" for gap in report.gaps]
    output.say_lines("gap", gaps)
    if not quiet:
        output.say_lines("note", report.notes)
