"""The command `reput`: verbs are loaded when they are called, and errors become one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from reput import __version__
from reput.cli import output
from reput.cli.groups import VerbGroup
from reput.errors import ReputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VERBS = {
    "info": "what a store holds, and what is missing or behind (quick, reads little)",
    "dump": "records, queue entries or index items as text or JSON lines",
    "get": "messages of a queue, from an offset on; -f follows",
    "query": "messages by key, unique key, tag or message id",
    "offset": "spans of queues, and queue offsets by time",
    "progress": "how far groups have read, their lag in messages and in time; changes of it",
    "check": "hold the indexes against the log: does every entry say what its record says?",
    "rebuild": "build the ConsumeQueues and IndexFiles again from the log",
    "convert": "make the queues ones of another kind: files, RocksDB or both",
    "diff": "hold queue files against RocksDB, or the queues of two stores against one another",
    "delete": "a topic's queues, or one of them",
    "follow": "let the indexes go on with the log, all day",
    "put": "messages into a queue, from lines of text or of JSON",
    "export": "messages as Parquet files, by topic and day; goes on where it was",
    "prepare": "compile the kernels and speed up later starts of Spark (once a machine)",
}
_FOLDERS = ("dump", "get", "progress", "put")
"""Verbs that have a folder: their options are in its module `command`."""
_INTERRUPTED = 130


class _Verbs(VerbGroup):
    """The verbs. Each is imported when it is called, so that `info` does not wait for what `rebuild` needs."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; who reads our output may stop at any time (click would make exit code 1 of that)."""
        try:
            code = super().invoke(ctx)
            output.flush()
        except BrokenPipeError:
            silence_stdout()
            return 0
        return code

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click asks so
        """The verbs, inspection first."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click asks so
        """The verb of that name."""
        if cmd_name not in _VERBS:
            return None
        module = f"reput.cli.{cmd_name}.command" if cmd_name in _FOLDERS else f"reput.cli.{cmd_name}"
        command = getattr(import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click asks so
        """The list of verbs in the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs and options that begin with `incomplete`, without importing the verbs."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=text) for name, text in _VERBS.items() if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reput")
def cli() -> None:
    """Look at, check and rebuild the message stores of Apache RocketMQ.

    STORE is the folder that RocketMQ calls storePathRootDir, the one with `commitlog` in it.

    Data goes to stdout, all else to stderr. Exit codes: 0 all is well, 1 the store's bytes are wrong, or differ (diff),
    2 it could not be looked at or changed, 130 it was ended by Ctrl-C.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    _open_closed_streams()
    # Without a handler Python prints what libraries log; py4j logs stack traces when Ctrl-C ends a job.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return _run(arguments)
    except BrokenPipeError:
        silence_stdout()
        return 0
    except ConnectionError as error:
        # Only Spark's JVM is reached over a connection.
        output.say(f"error: Spark's JVM has ended, or does not answer any more: {error.strerror or error}")
        return 2
    except OSError as error:
        return _output_failed(error)


def _run(arguments: list[str]) -> int:
    try:
        code = cli.main(arguments, prog_name="reput", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ReputError as error:
        return _failed(arguments, error)
    except click.ClickException as error:
        return _misused(arguments, error)
    except (KeyboardInterrupt, click.Abort):
        _let_data_out()
        output.say("interrupted")
        return _INTERRUPTED


def _open_closed_streams() -> None:
    """Lead output nowhere that its caller has closed (`>&-`): Python gives no stream for that."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def silence_stdout() -> None:
    """Lead a stdout that cannot be written nowhere: Python would complain once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _let_data_out() -> None:
    """Let out the data in front of an error; where that fails too, the error comes all the same."""
    try:
        output.flush()
    except OSError:
        silence_stdout()


def _misused(arguments: list[str], error: click.ClickException) -> int:
    _let_data_out()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        # Its message is the whole help.
        output.say(error.format_message())
        return error.exit_code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        output.say(error.ctx.get_usage())
    output.say(f"error: {error.format_message()}")
    _failed_json(arguments, error, error.format_message())
    return error.exit_code


def _output_failed(error: OSError) -> int:
    """All that reput does to files of a store ends in a ReputError: what comes this far is its own output."""
    silence_stdout()
    what_is_done = "".join(f". {note}" for note in getattr(error, "__notes__", ()))
    output.say(f"error: cannot write the output: {error.strerror or error}{what_is_done}")
    return 2


def _failed(arguments: list[str], error: ReputError) -> int:
    _let_data_out()
    output.say(f"error: {error}")
    for note in getattr(error, "__notes__", ()):
        output.say(note)
    _failed_json(arguments, error, str(error))
    return error.exit_code


def _failed_json(arguments: list[str], error: Exception, message: str) -> None:
    """Give a caller who asked for JSON a document whatever happens."""
    if "--json" in arguments:
        emit_failure(type(error).__name__, message, getattr(error, "details", {}))


def emit_failure(kind: str, message: str, details: Mapping[str, Any]) -> None:
    """Give the JSON document of a failure; that nobody reads it does not make the failure a success."""
    try:
        output.emit_json({"ok": False, "error": {"kind": kind, "message": message}, **details})
        output.flush()
    except BrokenPipeError:
        silence_stdout()
