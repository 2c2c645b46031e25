"""The sweep: a scenario runs once with a recorder, then every call of it is the last before the power is cut."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.log.append import append
from reput.store import message_store
from support.power.disk import Disk, write_tree
from support.power.journal import Known
from support.power.recorder import Recorder
from support.power.scenarios import SCENARIOS
from support.power.verdict import Promises, assert_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.power.disk import Tree
    from support.power.journal import Entry

_CHOICES, _TURNS_MOST, _FEW = 4, 400, 3
"""States drawn after each entry in a turn, besides the two extremes; turns; fewer new states in one end the search."""
FIRST_MS = 1_700_000_000_000


class State(NamedTuple):
    """A state of the disk: after how many entries of the journal, and which of its choices."""

    call: int
    choice: int


class Recorded(NamedTuple):
    """A run of a scenario: the files before, the facts before, and the journal."""

    before: Tree
    known: list[Entry]
    journal: list[Entry]


class Swept(NamedTuple):
    """The numbers of a sweep: entries of the journal, states drawn, those tried, and those that broke a promise.

    All that are tried differ.
    """

    calls: int
    drawn: int
    distinct: int
    broken: int


def record(name: str, folder: Path, **faults: int) -> Recorded:
    """Run a scenario in a new folder; each run makes the same calls."""
    scenario = SCENARIOS[name]
    known: list[Entry] = []
    disk = folder / "disk"
    disk.mkdir(parents=True)
    clock = itertools.count(FIRST_MS * 1_000_000, 1_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "_time_ns", lambda: next(clock))
        # No work of the background: the scenario asks for what it wants.
        patch.setattr(message_store, "_TICK_S", 1000.0)
        if scenario.prepare is not None:
            scenario.prepare(disk / "store", lambda what, value: known.append(Known(what, value)))
        recorder = Recorder(disk, **faults)
        with recorder:
            scenario.work(disk / "store", recorder.note)
    return Recorded(recorder.before, known, recorder.journal)


def states(recorded: Recorded, choices: int, seed: int) -> Iterator[tuple[State, Tree, Promises]]:
    """Yield states after each entry: the two extremes, and `choices` others while anything waits for a sync."""
    disk, promises = Disk(recorded.before), Promises(recorded.known)
    chance = random.Random(seed)
    for call, entry in enumerate([None, *recorded.journal]):
        if entry is not None:
            disk.apply(entry)
            promises.add(entry)
        yield State(call, 0), disk.state(0), promises
        if not disk.is_settled:
            for choice in (1, *(chance.randrange(2, 1 << 32) for _ in range(choices))):
                yield State(call, choice), disk.state(choice), promises


def state(recorded: Recorded, one: State) -> tuple[Tree, Promises]:
    """Return one state again."""
    disk, promises = Disk(recorded.before), Promises([*recorded.known, *recorded.journal[: one.call]])
    for entry in recorded.journal[: one.call]:
        disk.apply(entry)
    return disk.state(one.choice), promises


def sweep(
    name: str,
    folder: Path,
    *,
    most: int,
    seed: int = 0,
    report: Callable[[AssertionError], None] | None = None,
) -> Swept:
    """Try `most` different states of a scenario, or all that some rounds of choices find.

    Raises:
        AssertionError: A state breaks a promise; with `report` that gets each, and the sweep goes on.
    """
    recorded = record(name, folder / "run")
    shutil.rmtree(folder / "run")
    found: dict[bytes, State] = {}
    drawn = 0
    for turn in range(_TURNS_MOST):
        known = len(found)
        for one, tree, promises in states(recorded, _CHOICES, seed + turn):
            drawn += 1
            found.setdefault(_digest(tree, promises), one)
        if len(found) >= most or len(found) - known < _FEW:
            break
    wanted = sorted(found.values())
    if len(wanted) > most:
        wanted = sorted(random.Random(seed).sample(wanted, most))
    broken = 0
    for one in wanted:
        try:
            try_state(name, recorded, one, folder)
        except AssertionError as error:
            if report is None:
                raise
            broken += 1
            report(error)
    return Swept(len(recorded.journal), drawn, len(wanted), broken)


def _digest(tree: Tree, promises: Promises) -> bytes:
    digest = hashlib.blake2b(repr(promises).encode())
    for path, found in sorted(tree.items()):
        data = found if isinstance(found, bytes) else repr(found).encode()
        digest.update(f"{path} {len(data)} ".encode())
        digest.update(data)
    return digest.digest()


def try_state(name: str, recorded: Recorded, one: State, folder: Path) -> None:
    """Judge one state of a recorded run."""
    tree, promises = state(recorded, one)
    write_tree(tree, folder / "cut")
    try:
        assert_kept(folder / "cut" / "store", promises, SCENARIOS[name].config)
    except Exception as error:
        last = recorded.journal[one.call - 1] if one.call else "the begin"
        raise AssertionError(
            f"{name}: power cut after call {one.call} ({last!r:.120}), choice {one.choice}: {error}\n"
            f"again: make power-cuts SCENARIO='{name}' CALL={one.call} CHOICE={one.choice}"
        ) from error
    finally:
        shutil.rmtree(folder / "cut", ignore_errors=True)
