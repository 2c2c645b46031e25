"""Index sinks: a decode task leaves what each kind of index is made of; `INDEX_SINKS` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from reput.formats.index.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.pipeline.split import parts
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.index_keys import save_keys
from reput.pipeline.split.job import Job


class IndexSink(Protocol):
    """Leaves for the next stage what one kind of index is made of."""

    def take(self, job: Job, decoded: DecodedSplit) -> None:
        """Take a decoded split."""
        ...


class ItemSink:
    """Leaves the items of IndexFiles; a check needs to know which of them are of tags."""

    def take(self, job: Job, decoded: DecodedSplit) -> None:
        """See `IndexSink`."""
        parts.save_items(job, decoded.split.number, parts.items_of(decoded.columns, with_tags=bool(job.checked)))


class KeySink:
    """Leaves the keys of the index database."""

    def take(self, job: Job, decoded: DecodedSplit) -> None:
        """See `IndexSink`."""
        save_keys(job, decoded)


INDEX_SINKS: Mapping[str, IndexSink] = {INDEX_FILES: ItemSink(), INDEX_DATABASE: KeySink()}


def take_indexed(job: Job, decoded: DecodedSplit) -> None:
    """Hand a decoded split to the sinks of the job's kinds of index; the caller holds the fence."""
    for name in job.indexes:
        INDEX_SINKS[name].take(job, decoded)
