"""Processes that tests start, and a look at them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING

from reput.formats import paths

if TYPE_CHECKING:
    from collections.abc import Iterator


def quick_jvm() -> dict[str, str]:
    """Return the environment of programs that start Spark themselves: their JVMs start with half of the work."""
    from reput.pipeline.spark import jvm_archive

    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    archive = jvm_archive.usable_archive()
    if archive is not None:
        # A JVM with another class path does without the archive, and would say so.
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    return {"JAVA_TOOL_OPTIONS": " ".join(options)}


def in_session(number: int) -> dict[int, str]:
    """The processes of a session, by id, with their names."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            if int(fields[3]) == number and fields[0] != "Z":
                found[int(folder.name)] = name
    return found


@contextlib.contextmanager
def writing(store: Path) -> Iterator[int]:
    """Another process that has the store open to write; gives its id."""
    code = (
        "import reput, sys\n"
        "with reput.MessageStore.open(sys.argv[1], sys.argv[2]):\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()"
    )
    conf = store.parent / "writer.conf"
    log_file = next((store / paths.COMMIT_LOG).iterdir())
    conf.write_text(f"mappedFileSizeCommitLog={log_file.stat().st_size}\n")
    with Popen([sys.executable, "-c", code, str(store), str(conf)], stdin=PIPE, stdout=PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"\n"
        yield writer.pid


@contextlib.contextmanager
def followed(store: Path) -> Iterator[int]:
    """Another process that follows the store; gives its id."""
    code = (
        "import reput, sys\nwith reput.follow(sys.argv[1], spark=False):\n    print(flush=True)\n    sys.stdin.read()"
    )
    with Popen([sys.executable, "-c", code, str(store)], stdin=PIPE, stdout=PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"\n"
        yield follower.pid
