"""`python -m demo [N] [--keep PATH]`: shows a rebuild of RocketMQ's own store, or of a large one of ours.

Without N the demo deletes the ConsumeQueues and IndexFiles of a store that Apache RocketMQ wrote. Spark builds them
again, and the demo compares every file with RocketMQ's. With N it first writes a store of N messages, to show the
speed. The stores are in a temporary folder, or stay in PATH.
Exit code: 0 all files are equal, 1 a file differs, 2 an error.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from demo.golden_store import show_golden
from demo.large_store import show_own
from demo.outcome import printable_start
from reput.cli.shared.output import say, show
from reput.errors import ConfigError, ReputError
from reput.files import fs
from reput.formats import paths

_USAGE = "make demo, or make demo N=4000000 for a store of that many messages; KEEP=PATH keeps it"
_KEEP = "--keep"
_FAILED, _INTERRUPTED = 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return the exit code."""
    try:
        rest, keep = parse_keep(arguments)
        count = parse_count(rest)
        with temporary_folder() if keep is None else kept_folder(keep) as folder:
            return show_own(folder, count) if count else show_golden(folder)
    except ReputError as error:
        say(f"demo: {error}")
        return _FAILED
    except KeyboardInterrupt:
        say("demo: interrupted; its folder is removed")
        return _INTERRUPTED


def parse_count(arguments: Sequence[str]) -> int | None:
    """Return N from the command line; None if it is not given.

    Raises:
        ConfigError: It is no whole number above 0.
    """
    if not arguments:
        return None
    text = " ".join(arguments)
    # A longer number exceeds any disk, and Python refuses very long ones.
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0:
        return int(text)
    raise ConfigError(f"N={printable_start(text)}: a whole number of messages above 0 is needed ({_USAGE})")


def parse_keep(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the arguments without `--keep PATH`, and that path; None if it is not given.

    Raises:
        ConfigError: There is no path after it.
    """
    rest = list(arguments)
    if _KEEP not in rest:
        return rest, None
    at = rest.index(_KEEP)
    if len(rest) == at + 1 or not rest[at + 1]:
        raise ConfigError(f"{_KEEP}: name a folder after it ({_USAGE})")
    path = Path(rest[at + 1]).expanduser().absolute()
    del rest[at : at + 2]
    return rest, path


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a temporary folder; remove it at any end of the demo."""
    with fs.errors_named(tempfile.gettempdir(), "make a temporary folder"):
        folder = Path(tempfile.mkdtemp(prefix="reput-demo-"))
    try:
        yield folder
    finally:
        fs.remove_tree(folder)


@contextlib.contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """Make a new folder that stays; remove it if the demo fails.

    Raises:
        ConfigError: The path exists.
    """
    if fs.exists(path):
        raise ConfigError(f"{path}: is there already. Name a new folder for the demo's store")
    fs.make_dirs(path)
    try:
        yield path
    except BaseException:
        fs.remove_tree(path)
        raise
    for log in sorted(path.rglob(paths.COMMIT_LOG)):
        show(f"Kept: {log.parent}")


if __name__ == "__main__":
    # Remove a gigabyte also if SIGTERM ends the demo.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # On Ctrl-C PySpark would log stack traces.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.exit(main(sys.argv[1:]))
