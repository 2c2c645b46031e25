"""`python -m demo [N] [--keep PATH]`: reput at work on RocketMQ's own store or a large one of ours.

Without N, a store that Apache RocketMQ wrote loses its ConsumeQueues and IndexFiles, Spark builds them again, and every
file is compared with RocketMQ's. With N, a store of N messages is written first, so that one sees the speed. The stores
lie in a temporary folder, or stay in PATH for the other commands to look at.
Exit code: 0 all is equal, 1 something differs, 2 it could not be done.
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
from reput.cli.output import say, show
from reput.errors import ConfigError, ReputError
from reput.files import fs
from reput.formats import paths

_USAGE = "make demo, or make demo N=4000000 for a store of that many messages; KEEP=PATH keeps it"
_KEEP = "--keep"
_FAILED, _INTERRUPTED = 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run the demo; returns the exit code."""
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
    """N from the command line, None without.

    Raises:
        ConfigError: it is no whole number above 0.
    """
    if not arguments:
        return None
    text = " ".join(arguments)
    # Longer numbers pass any disk, and Python refuses to read the very long ones.
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0:
        return int(text)
    raise ConfigError(f"N={printable_start(text)}: a whole number of messages above 0 is needed ({_USAGE})")


def parse_keep(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """The arguments without `--keep PATH`, and that path; None without.

    Raises:
        ConfigError: there is no path behind it.
    """
    rest = list(arguments)
    if _KEEP not in rest:
        return rest, None
    at = rest.index(_KEEP)
    if len(rest) == at + 1 or not rest[at + 1]:
        raise ConfigError(f"{_KEEP}: name a folder behind it ({_USAGE})")
    path = Path(rest[at + 1]).expanduser().absolute()
    del rest[at : at + 2]
    return rest, path


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone at the end, however the demo ends."""
    with fs.errors_named(tempfile.gettempdir(), "make a temporary folder"):
        folder = Path(tempfile.mkdtemp(prefix="reput-demo-"))
    try:
        yield folder
    finally:
        fs.remove_tree(folder)


@contextlib.contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """A new folder that stays; gone again when the demo does not come to its end.

    Raises:
        ConfigError: there is something under this name already.
    """
    if fs.exists(path):
        raise ConfigError(f"{path}: is there already. Name a folder that is not, for the demo's store to stay in")
    fs.make_dirs(path)
    try:
        yield path
    except BaseException:
        fs.remove_tree(path)
        raise
    for log in sorted(path.rglob(paths.COMMIT_LOG)):
        show(f"Kept: {log.parent}")


if __name__ == "__main__":
    # A gigabyte must not stay behind when the demo is ended from outside.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # What PySpark would log on Ctrl-C, stack traces to the JVM, is no news to whoever pressed it.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.exit(main(sys.argv[1:]))
