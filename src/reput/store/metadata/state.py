"""The sources of a store's metadata as `reput info` shows them: which counts, how old each is, and contradictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.formats.config.data_version import NO_VERSION
from reput.store.metadata.json_files import JsonFiles
from reput.store.metadata.metadata import Metadata, replaces
from reput.store.metadata.tables import Content, MetadataSource, Table
from reput.texts import time_text


@dataclass(slots=True)
class SourceState:
    """One place of a table. `written_ms`: when it was last written; `entries` and `version` are None if not read.

    `is_held`: another process has the database open, so it is read as far as that has flushed. `counting_entries`: the
    number of its entries that a broker has after its start; the others are replaced by those of another place.
    `is_taken_in`: a broker looks in another place, and takes these in at its start.
    """

    source: str
    words: str
    place: str
    written_ms: int
    is_held: bool
    counts: bool
    entries: int | None = None
    version: dict[str, int] | None = None
    counting_entries: int | None = None
    is_taken_in: bool = False


@dataclass(slots=True)
class MetadataState:
    """The places of each table, those that count first; `notes` on what a broker does, `damage` of what counts.

    `absent`: the place where a broker looks for a table that is nowhere. `lacks_tables`: a broker had these tables, as
    databases and groups show; an embedded store has only what was set.
    """

    tables: dict[str, list[SourceState]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    lacks_tables: bool = False

    @property
    def is_plain(self) -> bool:
        """True if all is in JSON, nothing is there twice, and nothing is missing that a broker had."""
        return not self.lacks_tables and all(
            len(places) == 1 and places[0].source == JsonFiles.name for places in self.tables.values()
        )


def metadata_state(metadata: Metadata) -> MetadataState:
    """Look at all sources. Of a table that has only one, in JSON, just the begin and the end of the file are read."""
    state = MetadataState()
    for table in Table:
        source = metadata.source(table)
        if not source.is_present(table):
            state.absent[table.value] = str(metadata.wanted(table))
            continue
        sources = _sources(metadata, table)
        is_as_expected = metadata.is_as_expected and metadata.place(table) == metadata.wanted(table)
        if len(sources) == 1 and is_as_expected and isinstance(source, JsonFiles) and source.looks_whole(table):
            state.tables[table.value] = [_state(source, table, counts=True)]
        else:
            state.tables[table.value] = _places(metadata, table, sources, state)
    is_of_broker = metadata.expected.is_database or Table.GROUPS.value in state.tables
    state.lacks_tables = is_of_broker and bool(state.absent)
    return state


def _places(metadata: Metadata, table: Table, sources: list[MetadataSource], state: MetadataState) -> list[SourceState]:
    """Return the places of a table; notes and damage go to `state`."""
    counting: Content | None = None
    try:
        counting = metadata.read(table)
        shown = _parts_shown(metadata, table)
        # A broker may not start with values that are not its own: `check` reports them as damage, too.
        # One database may have all tables, and say the same of each.
        state.notes += [note for note in counting.notes if note not in (*counting.damage, *state.notes)]
        state.damage += counting.damage
    except DamagedStoreError as error:
        state.damage += [text for text in [str(error)] if text not in state.damage]
        shown = [_state(metadata.source(table), table, counts=True)]
    places = {one.place for one in shown}
    for other in sources:
        if str(other.place(table)) not in places:
            found = _state(other, table, counts=False)
            shown.append(found)
            state.notes += _compared(metadata, table, counting, other, found)
    return shown


def _parts_shown(metadata: Metadata, table: Table) -> list[SourceState]:
    shown, parts = [], metadata.parts(table)
    givers: dict[str, Path] = {}
    for part in parts:
        if replaces(part, table):
            givers.clear()
        givers |= dict.fromkeys(part.content.values, part.content.place)
        shown.append(_state(part.source, table, counts=True))
        _fill(shown[-1], part.content)
    numbers = Counter(givers.values())
    for one, part in zip(shown, parts, strict=True):
        one.counting_entries = numbers[part.content.place]
        one.is_taken_in = metadata.is_taken_in(part, table)
    return shown


def _state(source: MetadataSource, table: Table, *, counts: bool) -> SourceState:
    place, written_ms = source.place(table), source.written_ms(table)
    return SourceState(source.name, source.words, str(place), written_ms, source.is_held(table), counts)


def _fill(state: SourceState, content: Content) -> None:
    state.entries = len(content.values)
    state.version = None if content.version is None else content.version._asdict()


def _sources(metadata: Metadata, table: Table) -> list[MetadataSource]:
    """Return the sources with a place of a table in which there is something, that which counts first."""
    candidates = [*metadata.present, *(JsonFiles(metadata.folder, light) for light in (False, True))]
    found: dict[Path, MetadataSource] = {metadata.place(table): metadata.source(table)}
    for source in candidates:
        if source.is_present(table):
            found.setdefault(source.place(table), source)
    return list(found.values())


def _compared(
    metadata: Metadata, table: Table, counting: Content | None, other: MetadataSource, found: SourceState
) -> Iterator[str]:
    """Yield a note if another source has other content than the one that counts, or cannot be read."""
    try:
        content = other.read(table)
    except DamagedStoreError as error:
        yield f"{error}. It does not count"
        return
    _fill(found, content)
    if counting is None:
        return
    names = {*counting.values, *content.values}
    if not metadata.source(table).has_every_topic:
        # The broker also has others, which it makes at its start.
        names = set(counting.values)
    differing = sorted(name for name in names if counting.values.get(name) != content.values.get(name))
    if differing:
        name = differing[0]
        yield (
            f"{table.value} differ between {_dated(counting, metadata.source(table), table)} and "
            f"{_dated(content, other, table)}: {len(differing)} of {len(names)}, such as {name[:80]}. "
            f"{counting.place} counts"
        )


def _dated(content: Content, source: MetadataSource, table: Table) -> str:
    written = source.written_ms(table)
    return f"{content.place} (written {time_text(written)}, data version {(content.version or NO_VERSION).counter})"
