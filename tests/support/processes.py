"""Looking at processes that tests have started."""

from __future__ import annotations

import contextlib
from pathlib import Path

QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For the environment of programs that start Spark themselves: its JVMs start in two thirds of the time."""


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
