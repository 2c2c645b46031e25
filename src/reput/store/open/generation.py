"""The generation of a store's indexes: a swap of indexes raises it before and after, and a removal of queues after."""

from __future__ import annotations

from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout


class Generation:
    """The generation that a reader's view has read. Make it before the store's files are looked at.

    `seen` is that number, 0 before the first swap. `writer` is the process of a reput writer whose removals of queues
    the view follows by itself, 0 without one.
    """

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._marks: Watermarks | None = None
        self.seen = self.now()
        self.writer = 0

    @property
    def watermarks(self) -> Watermarks:
        """The store's watermarks; there are some once a job of reput has held it."""
        if self._marks is None:
            self._marks = Watermarks(self._layout.own(own.WATERMARKS_NAME), read_only=True)
        return self._marks

    def now(self) -> int:
        """Return the store's generation now."""
        # A value in a map takes 0.3 us, a look into the file 20.
        if self._marks is None and marks_of(self._layout)["magic"] != own.WATERMARKS_MAGIC:
            return 0
        return self.watermarks["generation"]

    @property
    def is_past(self) -> bool:
        """True if a job has replaced files, or is doing so, since the view has read them."""
        if self.now() == self.seen or self._marks is None:
            return False
        return not self.writer or self._marks["writer"] != self.writer

    def close(self) -> None:
        """Release the watermarks."""
        if self._marks is not None:
            self._marks.close()
