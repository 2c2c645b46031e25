"""The count of a store's swaps, which a reader compares: it is raised before the renames of a swap and after them."""

from __future__ import annotations

from reput.files import fs
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout


class SwapCount:
    """The count of swaps, and the one that a reader's view has seen: make it before the store's files are looked at."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._marks: Watermarks | None = None
        self._seen = self._now()

    @property
    def watermarks(self) -> Watermarks:
        """The store's watermarks; there are some once a job of reput has held it."""
        if self._marks is None:
            self._marks = Watermarks(self._layout.own(own.WATERMARKS_NAME), read_only=True)
        return self._marks

    def _now(self) -> int:
        if self._marks is None and not self._has_watermarks():
            return 0
        return self.watermarks["swaps"]

    def _has_watermarks(self) -> bool:
        # Whether there is a file takes 3 us, what it holds 20.
        return fs.exists(self._layout.own(own.WATERMARKS_NAME)) and (
            marks_of(self._layout)["magic"] == own.WATERMARKS_MAGIC
        )

    @property
    def has_risen(self) -> bool:
        """True if a job has swapped indexes in, or is doing so, since the view has read them."""
        return self._now() != self._seen

    def close(self) -> None:
        """Release the watermarks."""
        if self._marks is not None:
            self._marks.close()
