"""Message properties as columns for the vectorised filter: texts are places in a buffer, and nothing is copied.

Three sources: records in the log (`RecordProperties`), their properties alone (`RawProperties`), and Arrow columns, one
for each property (`ArrowProperties`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.errors import ConfigError
from reput.kernels import filter_kernels
from reput.kernels.layouts.filter import FoundTexts, PropertyPlaces, TextList, Texts

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_NO_SIZES = np.empty(0, dtype=np.int32)


class PropertyColumns(Protocol):
    """The input of a filter: a number of messages, and the properties of each by name."""

    def __len__(self) -> int: ...

    def piece(self, begin: int, end: int) -> PropertyColumns:
        """Return the same of the messages [begin, end)."""
        ...

    def texts(self, names: Iterable[str]) -> dict[str, Texts]:
        """Return the columns of these properties."""
        ...


class RawProperties:
    """The properties of records, each as one stretch of a buffer in RocketMQ's own form.

    Args:
        data: uint8, such as a mapped file of the log.
        at: int64, where each message's properties begin in it.
        size: int32, their length in bytes; -1 counts as none.
    """

    def __init__(self, data: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32]) -> None:
        self.data, self.at, self.size = data, at, size

    def __len__(self) -> int:
        return len(self.at)

    def piece(self, begin: int, end: int) -> RawProperties:
        """Return the same of the messages [begin, end)."""
        return RawProperties(self.data, self.at[begin:end], self.size[begin:end])

    def texts(self, names: Iterable[str]) -> dict[str, Texts]:
        """Return the columns of these properties."""
        return _found(PropertyPlaces(self.data, self.at, self.size, False), names)


class RecordProperties:
    """The properties of the records at these places (int64) of a buffer, found on demand."""

    def __init__(self, data: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        self.data, self.positions = data, positions

    def __len__(self) -> int:
        return len(self.positions)

    def piece(self, begin: int, end: int) -> RecordProperties:
        """Return the same of the messages [begin, end)."""
        return RecordProperties(self.data, self.positions[begin:end])

    def texts(self, names: Iterable[str]) -> dict[str, Texts]:
        """Return the columns of these properties."""
        return _found(PropertyPlaces(self.data, self.positions, _NO_SIZES, True), names)


def property_rows(columns: PropertyColumns, names: Sequence[str]) -> list[dict[str, str]]:
    """Return these properties of each message, as `CompiledFilter.matches` takes them."""
    rows: list[dict[str, str]] = [{} for _ in range(len(columns))]
    for name, texts in (columns.texts(names) if names else {}).items():
        for row, properties in enumerate(rows):
            text = texts.text(row)
            if text is not None:
                properties[name] = text
    return rows


def _found(places: PropertyPlaces, names: Iterable[str]) -> dict[str, Texts]:
    """Return the properties of these names, of records or of properties alone."""
    wanted = list(dict.fromkeys(names))
    found = FoundTexts.empty(len(wanted), len(places.at))
    filter_kernels().find_values(places, TextList.of([name.encode() for name in wanted]), found)
    return {name: found.of_name(row, places.data) for row, name in enumerate(wanted)}


class ArrowProperties:
    """Properties in Arrow columns (text or bytes). A property without a column is missing in every message."""

    def __init__(self, columns: Mapping[str, pa.Array], count: int) -> None:
        self._columns, self._count = columns, count

    def __len__(self) -> int:
        return self._count

    def piece(self, begin: int, end: int) -> ArrowProperties:
        """Return the same of the messages [begin, end)."""
        end = min(end, self._count)
        for name, column in self._columns.items():
            if len(column) != self._count:
                raise ConfigError(f"property {name}: {len(column)} rows where {self._count} are expected")
        pieces = {name: column.slice(begin, end - begin) for name, column in self._columns.items()}
        return ArrowProperties(pieces, end - begin)

    def texts(self, names: Iterable[str]) -> dict[str, Texts]:
        """Return the columns of these properties."""
        found = {}
        for name in names:
            column = self._columns.get(name)
            if column is None:
                found[name] = _no_texts(self._count)
            else:
                found[name] = arrow_texts(column)
                if len(found[name].at) != self._count:
                    raise ConfigError(f"property {name}: {len(found[name].at)} rows where {self._count} are expected")
        return found


def arrow_texts(array: pa.Array) -> Texts:
    """Return the texts of an Arrow column, as places in its buffer.

    Raises:
        ConfigError: it is no column of texts or bytes, or its offsets point outside its data.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        raise ConfigError(f"a column of {kind}: give texts or bytes")
    try:
        array.validate()
    except pa.ArrowInvalid as error:
        raise ConfigError(f"a column's offsets point outside its data: {error}") from error
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return _no_texts(len(array))
    dtype = np.dtype(np.int64 if wide else np.int32)
    places = np.frombuffer(offsets, dtype=dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    places = places.astype(np.int64)
    buffer = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    if int(places[0]) < 0 or int(places[-1]) > len(buffer) or bool((np.diff(places) < 0).any()):
        raise ConfigError("a column's offsets point outside its data")
    size = np.diff(places)
    if array.null_count:
        size = np.where(np.asarray(array.is_valid()), size, -1)
    texts = Texts(buffer, places[:-1], size.astype(np.int32), np.empty(len(size), dtype=np.uint64))
    filter_kernels().first_bytes(texts)
    return texts


def _no_texts(count: int) -> Texts:
    """Return `count` messages without the property."""
    size = np.full(count, -1, dtype=np.int32)
    return Texts(np.empty(0, dtype=np.uint8), np.zeros(count, dtype=np.int64), size, np.zeros(count, dtype=np.uint64))
