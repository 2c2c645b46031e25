"""`reput follow`: the indexes go on with the log, all day."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

from reput.cli import options, output

if TYPE_CHECKING:
    from reput.pipeline.follow.follow import FollowProgress
    from reput.pipeline.follow.query import FollowHandle

_LINE_S = 1.0
_QUIET_LINE_S = 10.0
_INTERRUPTED = 130


@click.command()
@click.option("--until-caught-up", is_flag=True, help="End when nothing is left to take in.")
@click.option(
    "--max-bytes-per-trigger",
    type=click.IntRange(min=1),
    default=2 << 30,
    show_default=True,
    help="The most bytes of log in a batch.",
)
@click.option(
    "--checkpoint-location", type=click.Path(file_okay=False), help="Folder of Spark's own files.  [default: in STORE]"
)
@options.force_setting_option
@options.follow_job
def follow(
    store: str,
    job: options.JobOptions,
    until_caught_up: bool,
    max_bytes_per_trigger: int,
    checkpoint_location: str | None,
    as_json: bool,
) -> int:
    """Let the indexes of STORE go on with its CommitLog, until it is ended (Ctrl-C, SIGTERM). This verb writes.

    It runs beside a program that has the store open with reput, or on a store that nobody writes. Beside a RocketMQ
    broker, which builds its own queues, it refuses. One process at a time follows a store.

    A line says how far the indexes are behind the log: bytes, messages, and the age of the first message that is
    not indexed yet. With --json a line of JSON a second. Killed at any moment nothing is lost: it goes on from the
    frontier.

    \b
    reput follow /data/store
    reput follow /data/store --until-caught-up
    reput follow /data/store --master spark://host:7077 --json
    """  # noqa: D301 - click wants the control character
    import reput
    from reput.errors import EngineError
    from reput.pipeline.spark.listener import ProgressListener
    from reput.pipeline.spark.session import DEFAULT_MASTER, STARTING

    class Notes(ProgressListener):
        def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as a ProgressListener has it
            if name == STARTING and not job.quiet:
                output.say(f"{name} ...")

        def note(self, text: str) -> None:
            if not job.quiet or text.startswith("warning"):
                line.clear()
                output.say(text)

    line = _LiveLine(as_json, job.quiet)
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())
    try:
        handle = reput.follow(
            store,
            spark=job.spark,
            # Asked for by name, Spark starts for little work too.
            master=job.master or (DEFAULT_MASTER if job.wants_spark else None),
            config=job.config,
            until_caught_up=until_caught_up,
            max_bytes_per_trigger=max_bytes_per_trigger,
            checkpoint_location=checkpoint_location,
            listener=Notes(),
        )
        _watch(handle, line, ended)
    except KeyboardInterrupt:
        output.say("interrupted: what was taken in is durable")
        return _INTERRUPTED
    except EngineError as error:
        # A service's stop sends SIGTERM to Spark's workers, too, and a batch that they are at fails.
        if not ended.is_set():
            raise
        if not job.quiet:
            output.say(f"note: Spark ended first ({error}); what was taken in is durable")
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _watch(handle: FollowHandle, line: _LiveLine, ended: threading.Event) -> None:
    """Show where a follower is until it ends, or is told to."""
    failed = True
    try:
        while not ended.is_set() and not handle.wait(min(_LINE_S, line.interval_s)):
            line.show(handle.progress)
        failed = False
    finally:
        handle.stop()
        line.end(handle.progress, failed=failed and sys.exc_info()[0] is not KeyboardInterrupt)


class _LiveLine:
    """Where the follower is: one line that changes on a terminal, now and then a line in a log, JSON for machines."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.terminal = sys.stderr.isatty() and not quiet and not as_json
        self.interval_s = 0.2 if self.terminal else _LINE_S
        self._shown = ""
        self._waited = _QUIET_LINE_S
        self._said = ""

    def show(self, progress: FollowProgress) -> None:
        """Tell it once more."""
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
        """Make room for another line."""
        if self._shown:
            output.redraw(" " * len(self._shown))
            output.redraw("")
            self._shown = ""

    def end(self, progress: FollowProgress, *, failed: bool) -> None:
        """Say it for the last time; one that failed is not called caught up, whatever it had seen."""
        self.clear()
        if self.as_json:
            output.emit_json(progress.as_dict())
            output.flush()
        elif not self.quiet and (progress.lag_bytes or not failed):
            self._say(_text(progress))

    def _say(self, text: str) -> None:
        """Say a line, unless it is the one that was said last."""
        if text != self._said:
            output.say(text)
        self._said = text


def _text(progress: FollowProgress) -> str:
    """One line for people; only beside a writer a follower that has caught up goes on being at something."""
    is_done = not progress.lag_bytes and progress.state in {"catching up", "idle"}
    state = "" if is_done else f"{progress.state}: "
    behind = (
        f"{output.size_text(progress.lag_bytes)} behind (about {progress.lag_messages:,} messages, "
        f"{progress.lag_ms:,} ms)"
        if progress.lag_bytes
        else "caught up"
    )
    rate = f"{progress.messages_per_s:,.0f} messages/s, " if progress.messages else ""
    batches = output.counted(progress.batches, "batch", "batches")
    return (
        f"{state}{behind}; {progress.messages:,} messages in {batches}, {rate}"
        f"last batch {progress.batch_ms:,.0f} ms; durable up to {progress.durable:,}"
    )
