"""The steps of a check for each kind of index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from reput.formats.index.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.index.kinds import AnyIndex
from reput.pipeline.check.index_database import DatabaseIndexCheck
from reput.pipeline.check.index_files import FileIndexCheck
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import SplitResult


class IndexCheck(Protocol):
    """The steps of a check for one kind of index."""

    def compares(self, index: AnyIndex) -> bool:
        """Return True if decode tasks are to leave what the index is compared with, if the store extends it."""
        ...

    def check(self, check: Check, index: AnyIndex, results: Sequence[SplitResult]) -> None:
        """In the driver: compare the index, if decode tasks have left that, and report what is wrong or missing."""
        ...


INDEX_CHECKS: Mapping[str, IndexCheck] = {INDEX_FILES: FileIndexCheck(), INDEX_DATABASE: DatabaseIndexCheck()}
