"""Questions that are asked again: while a reader looks, a writer may delete files, and a job replace indexes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from reput.errors import ReputError, StoreLockedError
from reput.files.gone import TRIES, is_gone
from reput.log.read.maps import LogMaps
from reput.store.disk.layout import StoreLayout


class Reloading(Protocol):
    """The view of a store, as far as it is needed here."""

    layout: StoreLayout
    log: LogMaps
    newer: Callable[[], Self] | None

    def load(self) -> None:
        """Read the indexes' files again."""


_View = TypeVar("_View", bound=Reloading)
_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def between_swaps(
    call: Callable[Concatenate[_View, _Arguments], _Returned],
) -> Callable[Concatenate[_View, _Arguments], _Returned]:
    """Let a view answer once more if files were deleted or replaced meanwhile.

    If files were deleted, the view goes on without them; a file that stays away is an error. If indexes were replaced,
    the view may have seen none of the old files and none of the new ones, so its answer does not count, and neither
    does its error: the view of the new files answers.

    Raises:
        StoreLockedError: a swap of indexes does not end, or was left by a killed job; or swaps come without end.
    """

    @wraps(call)
    def asked(view: _View, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Returned:
        for left in reversed(range(TRIES)):
            try:
                answer = call(view, *args, **named)
            except ReputError as error:
                newer = _newer(view)
                if newer is view:
                    if not left or not is_gone(error):
                        raise
                    view.log.refresh()
                    view.load()
            else:
                newer = _newer(view)
                if newer is view:
                    return answer
            view = newer
        raise StoreLockedError(f"{view.layout.root}: its indexes were replaced {TRIES} times meanwhile. Ask again")

    return asked


def _newer(view: _View) -> _View:
    return view if view.newer is None else view.newer()
