"""Forks and spawned processes: an object that a process has opened stays its own.

A forked child has copies of its parent's memory and descriptors, but none of its threads. Through its copy of an open
store it would overwrite the parent's data, and wait for locks that no thread of its own releases. So each object that
belongs to one process is noted here when it is opened, and the fork turns the child's copy into one that only raises.
The parent pays nothing for it: no call asks for the process id.

This covers Python's own forks (os.fork, multiprocessing, pty.fork), and forks of C code that calls
PyOS_AfterFork_Child. It does not cover others.
"""

from __future__ import annotations

import contextlib
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, SupportsIndex, TypeVar

from reput.errors import ForkedStoreError

T = TypeVar("T")
_noted: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_kept: list[object] = []
_FORKED = "_is_forked"
_PATIENCE_S = 5.0
_loading = threading.RLock()
_opening = threading.RLock()
_held = threading.local()


class NotPickled:
    """Base of objects that cannot be sent to another process, or copied; `_instead` names the remedy."""

    __slots__ = ()
    _instead: ClassVar[str]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds threads, locks or mapped files of this "
            f"process. {self._instead}"
        )


def in_child(thing: T, forsake: Callable[[T], None]) -> None:
    """Call `forsake` with the copy of `thing` in each child that this process forks from now on.

    It runs in the child before any other code, and must not wait for a lock.
    """
    _noted[thing] = forsake


def released(thing: object) -> None:
    """Forget a closed object: a child may use what is left of it."""
    _noted.pop(thing, None)


def refuse_in_child(thing: object, name: str, again: str) -> None:
    """Make every use of a copy of `thing` in a forked child raise ForkedStoreError, and change nothing.

    Args:
        name: The name in the error, such as the path of a store.
        again: The call that the error recommends to open another one.
    """
    process = os.getpid()
    in_child(thing, lambda copy: _refuse(copy, name, again, process))


def is_refused(thing: object) -> bool:
    """Return True if this is a forked child's copy of an object that its parent has open."""
    return _FORKED in vars(type(thing))


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Make forks of other threads wait while the block runs, some seconds at most.

    For threads of ours that may load kernels: the locks of Python's modules, and numba's, stay locked in a child that
    is forked meanwhile, and the child would wait for them when it opens a store itself.
    """
    with _loading:
        yield


@contextlib.contextmanager
def noting() -> Iterator[None]:
    """Make forks of other threads wait while the block opens and notes an object; the block must not wait."""
    with _opening:
        yield


def finalize(thing: object, function: Callable[..., None], *arguments: object) -> weakref.finalize[..., Any]:
    """Register a finalizer like `weakref.finalize`, for this process alone: a forked child inherits finalizers."""
    return weakref.finalize(thing, _call_in, os.getpid(), function, *arguments)


def _call_in(process: int, function: Callable[..., None], *arguments: object) -> None:
    if os.getpid() == process:
        function(*arguments)


def keep_for_ever(thing: object) -> None:
    """Never destroy an object, not even at the end of this process: its parent must do the final work."""
    import ctypes

    _kept.append(thing)
    # The interpreter releases a module's variables when it ends, but not this reference.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _refuse(copy: Any, name: str, again: str, process: int) -> None:
    present = type(copy)
    if is_refused(copy):
        return
    why = (
        f"{name}: process {process} opened this {present.__name__}, and this process, {os.getpid()}, was forked from "
        f'it. Open it again here: {again}. Or start processes with "spawn" instead of "fork" '
        '(multiprocessing.get_context("spawn")), and open it there'
    )

    def refuse(*_: object) -> Any:
        raise ForkedStoreError(why)

    def read(self: object, attribute: str) -> Any:
        # Names with two underscores at both ends are Python's own, for debuggers and isinstance.
        if attribute.startswith("__") and attribute.endswith("__"):
            return object.__getattribute__(self, attribute)
        raise ForkedStoreError(why)

    def leave(*_: object) -> None:
        # A child that leaves its parent's `with` block has nothing to close, and may have an error of its own.
        return

    def describe(_self: object) -> str:
        return f"<{present.__name__} of process {process}>"

    words = {
        "__slots__": (),
        "__getattribute__": read,
        "__setattr__": refuse,
        "__delattr__": refuse,
        "__enter__": refuse,
        "__exit__": leave,
        "__repr__": describe,
        _FORKED: True,
    }
    # A subclass, so that `isinstance` gives the same answer; with one base, or the object layout would differ.
    name_of_class = f"Forked{present.__name__}"
    copy.__class__ = types.new_class(name_of_class, (present,), exec_body=lambda space: space.update(words))


def _before() -> None:
    _held.is_mine = _loading.acquire(timeout=_PATIENCE_S)
    _opening.acquire()


def _after_in_parent() -> None:
    _opening.release()
    if _held.is_mine:
        _loading.release()


def _after_in_child() -> None:
    global _loading, _opening
    _loading, _opening = threading.RLock(), threading.RLock()
    for thing, forsake in list(_noted.items()):
        forsake(thing)


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
