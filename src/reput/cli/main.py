"""The command `reput`: verbs are loaded when they are called, and errors become one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from reput import __version__
from reput.cli.shared import output
from reput.cli.shared.groups import VerbGroup
from reput.cli.shared.signals import INTERRUPTED
from reput.errors import ReputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VERBS = {
    "info": "show what a store holds, and what is missing or out of date (quick)",
    "dump": "show records, queue entries or index items",
    "get": "show messages of topics; -f waits for new ones",
    "query": "find messages by key, unique key, tag or message id",
    "offset": "show the offsets of queues, or find an offset by time",
    "progress": "show or change how far consumer groups have read",
    "lite": "show lite topics: messages, age, expiry, lag",
    "pending": "show timers, transactions and popped messages that wait",
    "check": "compare the indexes with the log",
    "rebuild": "build the ConsumeQueues and IndexFiles again from the log",
    "convert": "change the kind of the queues: files, RocksDB or both",
    "diff": "compare queue files with RocksDB, or the queues of two stores",
    "delete": "delete the queues of a topic, or one of them",
    "follow": "keep the indexes up to date as the log grows",
    "put": "put messages from lines of text or JSON",
    "serve": "serve RocketMQ clients, as name server and broker",
    "export": "export messages as Parquet files by topic and day",
    "prepare": "compile the kernels, and make Spark start faster (once a machine)",
}
_FOLDERS = ("dump", "get", "pending", "progress", "put")
"""Verbs that have a folder. Its module `command` has their options."""


class _Verbs(VerbGroup):
    """The verbs. Each is imported when it is called, so that `info` does not load what `rebuild` needs."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. A reader of the output may stop at any time, which click would turn into exit code 1."""
        try:
            code = super().invoke(ctx)
            output.flush()
        except BrokenPipeError:
            output.silence_stdout()
            return 0
        return code

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click asks so
        """List the verbs, those that only read first."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click asks so
        """Return the verb of that name."""
        if cmd_name not in _VERBS:
            return None
        module = f"reput.cli.{cmd_name}.command" if cmd_name in _FOLDERS else f"reput.cli.{cmd_name}"
        command = getattr(import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click asks so
        """Write the list of verbs in the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs and options that begin with `incomplete`, without importing the verbs."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=text) for name, text in _VERBS.items() if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reput")
def cli() -> None:
    """Inspect, check and rebuild message stores of Apache RocketMQ; put and get messages.

    STORE is the folder that RocketMQ calls storePathRootDir. It has the folder `commitlog`. Begin with:

    \b
    reput info /data/store
    reput check /data/store

    Data goes to stdout, everything else to stderr. Exit codes: 0 success; 1 the store's bytes are wrong, differ (diff)
    or contradict a setting (check); 2 the store could not be read or changed; 130 Ctrl-C; 143 SIGTERM.
    `reput COMMAND --help` has examples.
    """  # noqa: D301 - click wants the control character


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    _open_closed_streams()
    # Without a handler Python prints what libraries log; py4j logs stack traces when Ctrl-C ends a job.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return _run(arguments)
    except BrokenPipeError:
        output.silence_stdout()
        return 0
    except ConnectionError as error:
        # The only connection is that to Spark's JVM.
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
        return INTERRUPTED


def _open_closed_streams() -> None:
    """Open the null device for a stream that the caller has closed (`>&-`): Python has no stream then."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _let_data_out() -> None:
    """Write the buffered data before an error message. The message follows even if that fails."""
    try:
        output.flush()
    except OSError:
        output.silence_stdout()


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
    """Report an OSError of the output. Errors of the store's files are ReputErrors."""
    output.silence_stdout()
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
    """Write a JSON document for the failure if the caller asked for JSON."""
    if "--json" in arguments:
        output.emit_failure(type(error).__name__, message, getattr(error, "details", {}))
