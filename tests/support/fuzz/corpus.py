"""The inputs that are kept: a file of base64 lines for each target, small enough to be run with every test.

An input is kept if it goes another way through reput than all shorter ones: from one line to another, or out of a
function by another line.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import reput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

CORPUS = Path(__file__).with_name("corpus")
_SOURCE = str(Path(reput.__file__).parent)
Arc = tuple[str, int, int]
"""A step through a source file, from one line to another."""


def load(name: str) -> list[bytes]:
    """Return the inputs of a target."""
    return [base64.b64decode(line) for line in (CORPUS / f"{name}.txt").read_text("ascii").split("\n")[:-1]]


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Keep these inputs of a target."""
    lines = (f"{base64.b64encode(one).decode('ascii')}\n" for one in inputs)
    (CORPUS / f"{name}.txt").write_text("".join(lines), "ascii")


def chosen(run: Callable[[bytes], None], inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that go new ways, the shortest first."""
    known: set[Arc] = set()
    kept = []
    for one in sorted(set(inputs), key=lambda data: (len(data), data)):
        found = arcs(run, one)
        if not found <= known:
            known |= found
            kept.append(one)
    return kept


def arcs(run: Callable[[bytes], None], data: bytes) -> set[Arc]:
    """Return the ways through reput's source that an input goes."""
    found: set[Arc] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        found.add((frame.f_code.co_filename, last.get(frame, 0), frame.f_lineno))
        last[frame] = frame.f_lineno
        if event == "return":
            last.pop(frame)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        run(data)
    finally:
        sys.settrace(before)
    return found
