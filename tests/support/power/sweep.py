"""The sweep: a scenario runs once with a recorder, then every call of it is the last before the power is cut."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
import shutil
import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest

import reput
from reput.connect.sink import staging
from reput.errors import NotAStoreError, ReputError
from reput.store import message_store
from support.determined import determined
from support.power import others
from support.power.disk import EVERYTHING, NOTHING, Disk, read_tree, write_tree
from support.power.journal import Known
from support.power.misread import assert_not_silent, draw
from support.power.recorder import Recorder
from support.power.scenarios import SCENARIOS, NotStoredError, message
from support.power.verdict import (
    Promises,
    assert_built_as_by_rebuild,
    assert_kept,
    assert_read_as_it_is,
    content,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.power.disk import Tree
    from support.power.journal import Entry
    from support.power.scenarios import Scenario

_AGAIN_MOST = 6
"""The messages that a scenario may put when it goes on after a crash."""
_CHOICES, _TURNS_MOST, _FEW = 4, 400, 3
"""States drawn after each entry in a turn, besides the two extremes; turns; fewer new states in one end the search."""
_STATES_OF_FAULT = 4
"""Least states after each fault."""
_READ_ONE_IN = 4
"""One state in four is read before it is recovered."""
_LATER_NS = 1 << 60
"""The clock after the power cut; each state begins at the same time."""


class Fault(NamedTuple):
    """A fault of the disk in a run, as `Recorder` has it: `failing_sync` or `full_from`, and at which sync or call."""

    kind: str
    at: int


class State(NamedTuple):
    """A state of the disk: after how many entries of the journal, and which of its choices; `fault`: in that run.

    `misread`: the number of a sector that is read wrong when the store is recovered; 0 for none.
    """

    call: int
    choice: int
    fault: Fault | None = None
    misread: int = 0


class Recorded(NamedTuple):
    """A run of a scenario: the files before, the facts before, the journal, its syncs, and calls that take room."""

    before: Tree
    known: list[Entry]
    journal: list[Entry]
    syncs: int
    takes: int

    @property
    def faults(self) -> list[Fault]:
        """The faults that a run like this may meet: each sync fails once, and the disk is full from each call on."""
        return [
            *(Fault("failing_sync", at) for at in range(1, self.syncs + 1)),
            *(Fault("full_from", at) for at in range(1, self.takes + 1)),
        ]


class Swept(NamedTuple):
    """The numbers of a sweep: entries of the journal or faults, states drawn, those tried, those that broke a promise.

    All that are tried differ, but for wrong sectors, of which one may be drawn twice.
    """

    calls: int
    drawn: int
    distinct: int
    broken: int


def record(name: str, folder: Path, fault: Fault | None = None) -> Recorded:
    """Run a scenario in a new folder; each run makes the same calls.

    After a fault the program ends with an error. After a sync that failed, another one then goes on with the store.
    """
    scenario = SCENARIOS[name]
    known: list[Entry] = []
    disk = folder / "disk"
    disk.mkdir(parents=True)
    with determined(), pytest.MonkeyPatch.context() as patch:
        # No work of the background: the scenario asks for what it wants.
        patch.setattr(message_store, "_TICK_S", 1000.0)
        if scenario.prepare is not None:
            scenario.prepare(disk / "store", lambda what, value: known.append(Known(what, value)))
        others.add(disk)
        # The names of staged files, too, are the same in each run.
        names = (uuid.UUID(int=number) for number in itertools.count())
        patch.setattr(staging.uuid, "uuid4", lambda: next(names))
        recorder = Recorder(disk, **({fault.kind: fault.at} if fault else {}))
        with recorder:
            try:
                scenario.work(disk / "store", recorder.note)
            except (ReputError, NotStoredError):
                if fault is None:
                    raise
                if fault.kind == "failing_sync":
                    _go_on(disk / "store", scenario, recorder, known)
    return Recorded(recorder.before, known, recorder.journal, recorder.syncs, recorder.takes)


def _go_on(path: Path, scenario: Scenario, recorder: Recorder, before: list[Entry]) -> None:
    """Go on with a store in which a sync has failed, in another program: what it has is durable then.

    It does again what the scenario does after a crash, or else puts a message. `before`: what was known before the run.
    """
    known = Promises([*before, *recorder.journal])
    with contextlib.suppress(NotAStoreError), reput.MessageStore.open(path, scenario.config) as store:
        following = max((int(body.split()[0]) for body in content(store)), default=-1) + 1
        if scenario.again is not None:
            recorder.note("begun", max(known.last("begun"), following) + _AGAIN_MOST)
            following = max(following, scenario.again(store, known.last("durable")))
        elif not known.last("topic may go"):
            recorder.note("begun", max(known.last("begun"), following + 1))
            assert store.put_message(message(following)).status is reput.PutStatus.PUT_OK
            following += 1
        store.close()
        recorder.note("durable", following)


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
    rebuild_each: int = 1,
) -> Swept:
    """Try `most` different states of a scenario, or all that some rounds of choices find.

    One state in `rebuild_each` is also compared with a rebuild of its log.

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
    wanted = some_of(sorted(found.values()), most, random.Random(seed))
    broken = 0
    for number, one in enumerate(wanted):
        broken += _is_broken(name, recorded, one, folder, report, with_rebuild=number % rebuild_each == 0)
    return Swept(len(recorded.journal), drawn, len(wanted), broken)


def some_of(states: list[State], most: int, chance: random.Random) -> list[State]:
    """Return `most` of some states, in order: first one after each call, as far as `most` reaches, then any."""
    if len(states) <= most:
        return states
    of_calls = [chance.choice(list(group)) for _, group in itertools.groupby(states, key=lambda one: one.call)]
    if len(of_calls) >= most:
        return sorted(chance.sample(of_calls, most))
    others = sorted(set(states).difference(of_calls))
    return sorted([*of_calls, *chance.sample(others, most - len(of_calls))])


def sweep_faults(
    name: str,
    folder: Path,
    *,
    most: int,
    seed: int = 0,
    report: Callable[[AssertionError], None] | None = None,
) -> Swept:
    """Try `most` states after a fault of the disk: some after each fault of a run, or after as many as there are.

    Raises:
        AssertionError: A state breaks a promise; with `report` that gets each, and the sweep goes on.
    """
    chance = random.Random(f"{name} {seed}")
    faults = record(name, folder / "run").faults
    shutil.rmtree(folder / "run")
    each = max(_STATES_OF_FAULT, most // max(len(faults), 1))
    if len(faults) * each > most:
        faults = sorted(chance.sample(faults, max(1, most // each)))
    drawn = broken = 0
    found: set[bytes] = set()
    for fault in faults:
        recorded = record(name, folder / "run", fault)
        shutil.rmtree(folder / "run")
        for one in _states_of(recorded, fault, each, chance):
            drawn += 1
            digest = _digest(*state(recorded, one))
            if digest in found:
                continue
            found.add(digest)
            broken += _is_broken(name, recorded, one, folder, report)
    return Swept(len(faults), drawn, len(found), broken)


def sweep_misreads(
    name: str,
    folder: Path,
    *,
    most: int,
    seed: int = 0,
    report: Callable[[AssertionError], None] | None = None,
) -> Swept:
    """Try `most` states of a scenario, each with another sector that is read wrong while the store is recovered.

    Raises:
        AssertionError: A promise is broken and nothing says so; with `report` that gets each, and the sweep goes on.
    """
    chance = random.Random(f"{name} {seed}")
    recorded = record(name, folder / "run")
    shutil.rmtree(folder / "run")
    end = len(recorded.journal)
    broken = 0
    for _ in range(most):
        call, choice = chance.randrange(end // 2, end + 1), chance.randrange(1, 1 << 32)
        one = State(call, choice, misread=chance.randrange(1, 1 << 32))
        broken += _is_broken(name, recorded, one, folder, report)
    return Swept(end, most, most, broken)


def _states_of(recorded: Recorded, fault: Fault, count: int, chance: random.Random) -> Iterator[State]:
    """Yield states of a run: the two extremes at its end, then others after any of its last calls."""
    end = len(recorded.journal)
    yield State(end, NOTHING, fault)
    yield State(end, EVERYTHING, fault)
    for _ in range(count - 2):
        yield State(chance.randrange(end // 2, end + 1), chance.randrange(2, 1 << 32), fault)


def _digest(tree: Tree, promises: Promises) -> bytes:
    digest = hashlib.blake2b(repr(promises).encode())
    for path, found in sorted(tree.items()):
        data = found if isinstance(found, bytes) else repr(found).encode()
        digest.update(f"{path} {len(data)} ".encode())
        digest.update(data)
    return digest.digest()


def _is_broken(
    name: str,
    recorded: Recorded,
    one: State,
    folder: Path,
    report: Callable[[AssertionError], None] | None,
    *,
    with_rebuild: bool = False,
) -> bool:
    """Judge one state; return True if it breaks a promise, which `report` gets, or raise that without `report`."""
    try:
        try_state(name, recorded, one, folder, with_rebuild=with_rebuild)
    except AssertionError as error:
        if report is None:
            raise
        report(error)
        return True
    return False


def try_state(name: str, recorded: Recorded, one: State, folder: Path, *, with_rebuild: bool = True) -> None:
    """Judge one state of a recorded run; `with_rebuild`: what is built from the log equals what a rebuild makes."""
    tree, promises = state(recorded, one)
    write_tree(tree, folder / "cut")
    try:
        # What becomes of many states is the same store, which is then checked once.
        clock = itertools.count(_LATER_NS, 1_000_000)
        with determined(clock_ns=lambda: next(clock)):
            wrong = draw(folder / "cut", random.Random(one.misread)) if one.misread else None
            if wrong is not None:
                assert_not_silent(folder / "cut", wrong, promises, SCENARIOS[name])
            else:
                if one.choice % _READ_ONE_IN == 0:
                    assert_read_as_it_is(folder / "cut" / "store", promises, SCENARIOS[name].config)
                    assert read_tree(folder / "cut") == tree, "a reader has written"
                assert_kept(folder / "cut" / "store", promises, SCENARIOS[name])
                others.assert_kept(recorded.before, folder / "cut")
                if with_rebuild:
                    assert_built_as_by_rebuild(folder / "cut" / "store", SCENARIOS[name])
    except Exception as error:
        last = recorded.journal[one.call - 1] if one.call else "the begin"
        raise AssertionError(
            f"{name}: power cut after call {one.call} ({last!r:.120}), choice {one.choice}{_after(one)}: {error}\n"
            f"again: make power-cuts SCENARIO='{name}' CALL={one.call} CHOICE={one.choice}"
            + (f" FAULT={one.fault.kind} AT={one.fault.at}" if one.fault else "")
            + (f" MISREAD={one.misread}" if one.misread else "")
        ) from error
    finally:
        shutil.rmtree(folder / "cut", ignore_errors=True)


def _after(one: State) -> str:
    return f", with {one.fault.kind} at {one.fault.at}" if one.fault else ""
