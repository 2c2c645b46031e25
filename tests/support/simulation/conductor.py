"""Threads that run one at a time, and a seed that decides which one goes on.

    with Conductor(chance) as conductor:
        store = reput.MessageStore.open(path)        its threads, too, belong to the conductor
        conductor.together([put, read, flush])       three threads more; returns when all have ended

Python lets another thread go on after a call, or while a call of the system waits. There a thread of the conductor
gives way at times: after calls in reput's code, and before and after calls of the recorder, which is the system
here. It also gives way where it waits for a lock, a condition, an event, another thread, or time. Time is the
conductor's: it goes on when every thread waits, and by chance before. If nobody can ever go on, that is a deadlock.
What runs in a kernel is not interrupted.
"""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import reput
from support.power import recorder
from support.simulation.seat import DeadlockError, Seat
from support.simulation.substitutes import Substitutes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType, TracebackType

_SOURCE: Final = str(Path(reput.__file__).parent)
_OTHER, _OURS, _SYSTEM = range(3)
_MEAN_CALLS = (3, 20, 150)
"""A thread gives way after this many calls on average; one of them holds for all threads of a conductor."""
_RARELY, _PASSES_S = 0.01, (0.001, 0.2)
"""The share of turns at which time passes, and how much: with more the housekeeper would never rest."""


class Conductor:
    """Leads the thread that enters its `with` block, and those that reput begins meanwhile; `chance` decides.

    Raises:
        DeadlockError: from any call in any of its threads.
    """

    def __init__(self, chance: random.Random) -> None:
        self.now = 0.0
        self.contended = 0
        """The number of times that a thread had to wait for a lock."""
        self._chance = chance
        self._mean = chance.choice(_MEAN_CALLS)
        self._left = 0
        self._seats: dict[int, Seat] = {}
        self._deadlock = ""
        self._kinds: dict[CodeType, int] = {}
        self._substitutes = Substitutes(self)
        self._profile: Any = None
        self._collects = False

    def __enter__(self) -> Self:
        self._substitutes.put()
        self._seats[threading.get_ident()] = Seat("the first thread")
        # A collection calls finalizers, at a moment that no seed decides.
        self._collects = gc.isenabled()
        gc.disable()
        self._profile = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(self._profile)
        if self._collects:
            gc.enable()
        self._substitutes.take_back()

    def together(self, works: Sequence[Callable[[], None]]) -> None:
        """Run functions in a thread each; raise the first error of one when all have ended."""
        errors: list[BaseException] = []

        def run(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)

        threads = [self._substitutes.thread(run, (work,), f"work {number}") for number, work in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    # --- who goes on -------------------------------------------------------------------------------

    def wait(self, may_go: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Let others go on until `may_go` says True, or the time is over; return what it says then."""
        seat = self._seats[threading.get_ident()]
        seat.may_go, seat.deadline = may_go, None if timeout_s is None else self.now + timeout_s
        self._give_way(seat)
        seat.may_go = seat.deadline = None
        return may_go()

    def take(self, seat: Seat, ident: int) -> None:
        """Lead a thread that has begun, and waits for its first turn."""
        self._seats[ident] = seat
        self._give_way(self._seats[threading.get_ident()])

    def begin(self, seat: Seat) -> None:
        """Wait for the first turn, in the thread itself."""
        seat.turn.acquire()
        self._refuse_deadlock()
        sys.setprofile(self._look)

    def leave(self, seat: Seat) -> None:
        """Lead a thread no more: it ends."""
        sys.setprofile(None)
        seat.ended = True
        self._seats = {ident: other for ident, other in self._seats.items() if other is not seat}
        if not self._deadlock:
            self._next().turn.release()

    def _refuse_deadlock(self) -> None:
        if self._deadlock:
            raise DeadlockError(self._deadlock)

    def _give_way(self, seat: Seat) -> None:
        self._refuse_deadlock()
        following = self._next()
        if following is not seat:
            following.turn.release()
            seat.turn.acquire()
        self._refuse_deadlock()

    def _next(self) -> Seat:
        """Return the thread that goes on."""
        self._left = self._chance.randrange(1, 2 * self._mean)
        if self._chance.random() < _RARELY:
            self.now += self._chance.choice(_PASSES_S)
        seats = list(self._seats.values())
        while not (ready := [seat for seat in seats if seat.can_go(self.now)]):
            deadlines = [seat.deadline for seat in seats if seat.deadline is not None]
            if not deadlines:
                self._deadlock = f"deadlock of {', '.join(seat.name for seat in seats)}"
                for seat in seats:
                    seat.turn.release()
                return seats[0]
            self.now = min(deadlines)
        return self._chance.choice(ready)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        """Give way after some calls; the interpreter calls this at the beginning and at the end of each."""
        kind = self._kind(frame)
        if kind == _OTHER:
            return
        # Another thread may go on where a function of Python begins, and where one of C has ended. The recorder's
        # calls are the system's: before and after each, not within.
        if kind == _OURS:
            may_switch = event in ("call", "c_return", "c_exception")
        else:
            may_switch = event in ("call", "return") and frame.f_back is not None and self._kind(frame.f_back) == _OURS
        if may_switch:
            self._left -= 1
            if self._left <= 0:
                self._give_way(self._seats[threading.get_ident()])

    def _kind(self, frame: FrameType) -> int:
        kind = self._kinds.get(frame.f_code)
        if kind is None:
            path = frame.f_code.co_filename
            kind = _OURS if path.startswith(_SOURCE) else _SYSTEM if path == recorder.__file__ else _OTHER
            self._kinds[frame.f_code] = kind
        return kind
