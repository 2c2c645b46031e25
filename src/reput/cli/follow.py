"""`reput follow`: keep the indexes up to date as the log grows."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

import click

from reput.cli.shared import options, output
from reput.cli.shared.signals import INTERRUPTED, CommandEnd, sigterm_end
from reput.texts import size_text

if TYPE_CHECKING:
    from reput.pipeline.follow.follow import FollowProgress
    from reput.pipeline.follow.query import FollowHandle

_LINE_S = 1.0
_QUIET_LINE_S = 10.0


@click.command()
@click.option("--until-caught-up", is_flag=True, help="End when the indexes have the whole log.")
@click.option("--until-stdin-ends", is_flag=True, help="End when stdin ends, as it does when the parent process ends.")
@click.option(
    "--max-bytes-per-trigger",
    type=options.WholeNumber(1),
    default=2 << 30,
    show_default=True,
    help="The most bytes of log in a batch.",
)
@click.option(
    "--checkpoint-location",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="The folder of Spark's own files.  [default: in STORE]",
)
@options.force_setting_option
@options.follow_job
def follow(
    store: str,
    job: options.JobOptions,
    until_caught_up: bool,
    until_stdin_ends: bool,
    max_bytes_per_trigger: int,
    checkpoint_location: str | None,
    as_json: bool,
) -> int:
    """Build the indexes of STORE as its CommitLog grows, until Ctrl-C or SIGTERM. This command writes.

    It runs while a program has the store open with reput, or on a store that nobody writes. It refuses a store that a
    RocketMQ broker holds: the broker builds its own queues. One process at a time follows a store.

    A line shows the part of the log without index entries: bytes, messages, and the age of the first such message. With
    --json there is a line of JSON each second. A kill loses nothing: the next run resumes at the durable frontier.

    \b
    reput follow /data/store
    reput follow /data/store --until-caught-up
    reput follow /data/store --master spark://host:7077 --json
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.errors import EngineError
    from reput.pipeline.spark.listener import ProgressListener
    from reput.pipeline.spark.session import STARTING

    class Notes(ProgressListener):
        def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as a ProgressListener has it
            if name == STARTING and not job.quiet:
                output.say(f"{name} ...")

        def note(self, text: str) -> None:
            if not job.quiet or text.startswith("warning"):
                line.clear()
                output.say(text)

    line = _LiveLine(as_json, job.quiet)
    handle: FollowHandle | None = None
    # Spark takes seconds to start, and a follower that has not begun has nothing to complete.
    with sigterm_end(lambda: handle is None) as ended:
        if until_stdin_ends:
            threading.Thread(target=_wait_for_stdin, args=(ended,), name="reput-follow-stdin", daemon=True).start()
        try:
            handle = reput.follow(
                store,
                spark=job.spark_of_follower,
                # --spark starts Spark also for little work.
                master=job.spark_master,
                config=job.config,
                until_caught_up=until_caught_up,
                max_bytes_per_trigger=max_bytes_per_trigger,
                checkpoint_location=checkpoint_location,
                listener=Notes(),
            )
            _watch(handle, line, ended)
        except KeyboardInterrupt:
            output.say("interrupted: all indexed messages are durable")
            return INTERRUPTED
        except EngineError as error:
            # Stopping a service also sends SIGTERM to Spark's workers, and their batch fails.
            if not ended.is_set():
                raise
            if not job.quiet:
                output.say(f"note: Spark ended first ({error}); all indexed messages are durable")
    return 0


def _wait_for_stdin(ended: CommandEnd) -> None:
    """End the command at the end of stdin."""
    with contextlib.suppress(OSError):
        while os.read(0, 1 << 16):
            pass
    ended.come()


def _watch(handle: FollowHandle, line: _LiveLine, ended: CommandEnd) -> None:
    """Show the progress of a follower until it ends, or until the end of the command has come."""
    failed = True
    try:
        while not ended.is_set() and not handle.wait(min(_LINE_S, line.interval_s)):
            line.show(handle.progress)
        failed = False
    finally:
        handle.stop()
        line.end(handle.progress, failed=failed and sys.exc_info()[0] is not KeyboardInterrupt)


class _LiveLine:
    """Shows progress: one changing line on a terminal, a line every 10 s in a log, or JSON for programs."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.terminal = sys.stderr.isatty() and not quiet and not as_json
        self.interval_s = 0.2 if self.terminal else _LINE_S
        self._shown = ""
        self._waited = _QUIET_LINE_S
        self._said = ""

    def show(self, progress: FollowProgress) -> None:
        """Show the progress now."""
        if self.as_json:
            output.emit_json(progress.as_dict())
            output.flush()
        elif self.terminal:
            text = _text(progress)
            output.redraw(text.ljust(len(self._shown)))
            self._shown = text
        elif not self.quiet:
            self._waited += self.interval_s
            if self._waited >= _QUIET_LINE_S:
                self._waited = 0.0
                self._say(_text(progress))

    def clear(self) -> None:
        """Clear the changing line, for another line."""
        if self._shown:
            output.redraw(" " * len(self._shown))
            output.redraw("")
            self._shown = ""

    def end(self, progress: FollowProgress, *, failed: bool) -> None:
        """Show the last progress. A follower that failed is never shown as caught up."""
        self.clear()
        if self.as_json:
            output.emit_json(progress.as_dict())
            output.flush()
        elif not self.quiet and (progress.lag_bytes or not failed):
            self._say(_text(progress))

    def _say(self, text: str) -> None:
        """Write a line, unless it is equal to the last one."""
        if text != self._said:
            output.say(text)
        self._said = text


def _text(progress: FollowProgress) -> str:
    """Return one line for people. The state of a follower that has caught up is shown only if a writer is there."""
    is_done = not progress.lag_bytes and progress.state in {"catching up", "idle"}
    state = "" if is_done else f"{progress.state}: "
    lag = (
        f"{size_text(progress.lag_bytes)} to index (about {progress.lag_messages:,} messages, {progress.lag_ms:,} ms)"
        if progress.lag_bytes
        else "caught up"
    )
    rate = f"{progress.messages_per_s:,.0f} messages/s, " if progress.messages else ""
    batches = output.counted(progress.batches, "batch", "batches")
    return (
        f"{state}{lag}; {progress.messages:,} messages in {batches}, {rate}"
        f"last batch {progress.batch_ms:,.0f} ms; durable up to {progress.durable:,}"
    )
