"""Locks, threads and a clock for reput's modules, led by a conductor, in place of those of `threading` and `time`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
import time
from concurrent.futures import _base as futures
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import pytest

import reput
from support.simulation.seat import DeadlockError, Seat

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from support.simulation.conductor import Conductor

_PARTS = ("store", "log", "queue", "index", "files", "formats", "kernels", "pipeline")
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


class _Lock:
    """A lock as `threading.Lock`; with `again` its owner may take it again, as `threading.RLock`."""

    def __init__(self, conductor: Conductor, again: bool = False) -> None:
        self._conductor, self._again = conductor, again
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = threading.get_ident()
        if self._owner is not None and not (self._again and self._owner == me):
            if not blocking:
                return False
            self._conductor.contended += 1
            if not self._conductor.wait(lambda: self._owner is None, None if timeout < 0 else timeout):
                return False
        self._owner, self._count = me, self._count + 1
        return True

    def release(self) -> None:
        if self._owner is None or (self._again and self._owner != threading.get_ident()):
            raise RuntimeError("the lock is not held")
        self._count -= 1
        if not self._count:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def let_go(self) -> tuple[int | None, int]:
        """Release it, however often it was taken; return what `take_again` needs."""
        held, self._owner, self._count = (self._owner, self._count), None, 0
        return held

    def take_again(self, held: tuple[int | None, int]) -> None:
        """Take it as often as before."""
        self._conductor.wait(lambda: self._owner is None)
        self._owner, self._count = held


class _Condition:
    """A condition as `threading.Condition`."""

    def __init__(self, conductor: Conductor, lock: _Lock | None = None) -> None:
        self._conductor = conductor
        self._lock = lock or _Lock(conductor, again=True)
        self._waiting: list[list[bool]] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        called = [False]
        self._waiting.append(called)
        held = self._lock.let_go()
        try:
            return self._conductor.wait(lambda: called[0], timeout)
        finally:
            self._waiting = [other for other in self._waiting if other is not called]
            self._lock.take_again(held)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else self._conductor.now + timeout
        while not (result := predicate()):
            left = None if end is None else end - self._conductor.now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, count: int = 1) -> None:
        for called in self._waiting[:count]:
            called[0] = True
        self._waiting = self._waiting[count:]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class _Event:
    """An event as `threading.Event`."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor, self._is_set = conductor, False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._is_set or self._conductor.wait(lambda: self._is_set, timeout)


class _Thread(threading.Thread):
    """A thread that runs in its turns."""

    def __init__(self, conductor: Conductor, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._conductor, self._seat = conductor, Seat(self.name)
        self._begun = False
        self.daemon = True

    def start(self) -> None:
        super().start()
        self._begun = True
        assert self.ident is not None
        self._conductor.take(self._seat, self.ident)

    def run(self) -> None:
        try:
            self._conductor.begin(self._seat)
            super().run()
        except DeadlockError:
            pass  # The first thread gets it, too.
        finally:
            self._conductor.leave(self._seat)

    def join(self, timeout: float | None = None) -> None:
        if self._conductor.wait(lambda: self._seat.ended, timeout):
            super().join()

    def is_alive(self) -> bool:
        return self._begun and not self._seat.ended


class _Changed(ModuleType):
    """A module with some other values."""

    def __init__(self, real: ModuleType, values: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(values)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Substitutes:
    """The substitutes of one conductor; `put` gives them to all modules of reput that use threads, and to futures."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._patch = pytest.MonkeyPatch()

    def thread(self, target: Callable[..., None], arguments: tuple[Any, ...], name: str) -> threading.Thread:
        """Return a thread that does some work in its turns."""
        return _Thread(self._conductor, target=target, args=arguments, name=name)

    def put(self) -> Self:
        """Put them in the place of what `threading` and `time` have."""
        for part in _PARTS:
            package = importlib.import_module(f"reput.{part}")
            for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(found.name)
        conductor = self._conductor
        made: dict[Any, Any] = {
            threading.Lock: partial(_Lock, conductor),
            threading.RLock: partial(_Lock, conductor, again=True),
            threading.Condition: partial(_Condition, conductor),
            threading.Event: partial(_Event, conductor),
            threading.Thread: partial(_Thread, conductor),
        }
        names = {name: made[value] for name, value in vars(threading).items() if _is_one_of(value, made)}
        changed = _Changed(threading, names)
        clock = _Changed(time, {"monotonic": lambda: conductor.now, "sleep": lambda s: conductor.wait(bool, s)})
        self._patch.setattr(futures, "threading", changed)
        for module_name, module in list(sys.modules.items()):
            if module_name.split(".")[0] != reput.__name__:
                continue
            for name, value in list(vars(module).items()):
                if value is threading or value is time:
                    self._patch.setattr(module, name, changed if value is threading else clock)
                elif isinstance(value, (_LOCK, _RLOCK)):
                    self._patch.setattr(module, name, _Lock(conductor, again=isinstance(value, _RLOCK)))
                elif _is_one_of(value, made):
                    self._patch.setattr(module, name, made[value])
                elif isinstance(value, type):
                    self._put_in_class(value)
        return self

    def _put_in_class(self, owner: type) -> None:
        """Give cached properties, which have a lock until Python 3.12, one of the conductor's."""
        for value in vars(owner).values():
            if isinstance(value, cached_property) and isinstance(vars(value).get("lock"), _RLOCK):
                self._patch.setattr(value, "lock", _Lock(self._conductor, again=True))

    def take_back(self) -> None:
        """Give the modules what they had."""
        self._patch.undo()


def _is_one_of(value: object, made: dict[Any, Any]) -> bool:
    return any(value is real for real in made)
