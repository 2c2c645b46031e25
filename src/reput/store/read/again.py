"""Questions that are asked again: a writer may delete expired files while a reader looks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from reput.files.gone import tried_again
from reput.log.read.maps import LogMaps
from reput.store.disk.layout import StoreLayout
from reput.store.owner.swap import pending_swap


class Reloading(Protocol):
    """The view of a store, as far as it is needed here."""

    layout: StoreLayout
    log: LogMaps

    def load(self) -> None:
        """Read the indexes' files again."""


_View = TypeVar("_View", bound=Reloading)
_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def again_after_deletion(
    call: Callable[Concatenate[_View, _Arguments], _Returned],
) -> Callable[Concatenate[_View, _Arguments], _Returned]:
    """Let a view answer once more, without the deleted files, if a file was gone; a file that stays away is an error.

    In a swap of indexes all files are away for a moment: then the error is raised, for no files would be no messages.
    """

    @wraps(call)
    def asked(view: _View, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Returned:
        def may_try() -> bool:
            if pending_swap(view.layout):
                return False
            view.log.refresh()
            view.load()
            return True

        return tried_again(lambda: call(view, *args, **named), may_try)

    return asked
