"""Loops over bytes, in two twins: plain Python is the specification, compiled code is fast.

`REPUT_KERNELS=reference` chooses the plain ones everywhere, `compiled` (the default) the numba ones. Both fill the same
arrays and are tested against each other. The import of this package imports neither.

Loading the compiled kernels takes longer than answering a small question with the plain ones. So a command that expects
a small question asks it inside `small_work()`. There the plain kernels serve until more than SMALL_BYTES of log are to
be decoded, and then the compiled ones. A table of queues stays with the kind that began it (`Columns.kind`).
A process that must answer while a thread loads the compiled kernels works in the same way: see `PlainMeanwhile`.

May import formats and what lies below them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from reput.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.kernels.layouts.columns import Choice, PullRules
    from reput.kernels.layouts.filter import FoundTexts, NumberTest, PropertyPlaces, TextList, Texts

SWITCH = "REPUT_KERNELS"
COMPILED, REFERENCE = "compiled", "reference"

K = TypeVar("K", bound=tuple[Any, ...])


SMALL_BYTES = 1 << 20
"""The plain kernels decode at least this number of bytes of log in the time that loading the compiled ones takes."""
SMALL_STEP = 64 << 10
"""Bytes that are decoded at once if the total is not known."""


class _SmallWork:
    """The bytes of log that the plain kernels may still decode in this process; 0 outside `small_work`."""

    is_expected = False
    """True inside a `small_work` block, even when no bytes are left."""
    left = 0


class PlainMeanwhile:
    """Lets the plain kernels serve the whole process while a thread loads the compiled ones.

    As with `small_work`, nothing changes if REPUT_KERNELS names a kind or if numba is loaded already, and after
    SMALL_BYTES of log everybody waits for the compiled ones all the same.
    """

    left = 0
    """The bytes of log that the plain kernels may still decode."""
    loaders: ClassVar[set[int]] = set()
    """The threads that load the compiled ones."""

    @classmethod
    def begin(cls) -> None:
        """Let the plain kernels serve until `loading` ends, or `end` is called."""
        if SWITCH not in os.environ and "numba" not in sys.modules:
            cls.left = SMALL_BYTES

    @classmethod
    def end(cls) -> None:
        """Let the compiled kernels serve all threads."""
        cls.left = 0

    @classmethod
    @contextmanager
    def loading(cls) -> Iterator[None]:
        """Load the compiled kernels inside the block; they serve the calling thread, and after the block all others."""
        thread = threading.get_ident()
        cls.loaders.add(thread)
        try:
            yield
        finally:
            cls.loaders.discard(thread)
            cls.end()

    @classmethod
    def serves(cls) -> bool:
        """Return True while the plain kernels serve the calling thread."""
        return cls.left > 0 and threading.get_ident() not in cls.loaders


@contextmanager
def small_work() -> Iterator[None]:
    """Expect little work inside the block; see the module's docstring.

    Nothing changes if REPUT_KERNELS names a kind, if numba is loaded already, or inside another such block. While a
    thread loads the compiled kernels (`PlainMeanwhile`), the plain ones serve all others.
    """
    is_loaded = "numba" in sys.modules and not PlainMeanwhile.loaders
    if SWITCH in os.environ or is_loaded or _SmallWork.is_expected:
        yield
        return
    _SmallWork.is_expected, _SmallWork.left = True, SMALL_BYTES
    try:
        yield
    finally:
        _SmallWork.is_expected, _SmallWork.left = False, 0


def is_small_work() -> bool:
    """Return True while the plain kernels serve the calling thread."""
    return (_SmallWork.left > 0 and threading.get_ident() not in PlainMeanwhile.loaders) or PlainMeanwhile.serves()


def expect_work(size: int) -> None:
    """Announce that this number of bytes of log is decoded now."""
    _SmallWork.left = max(0, _SmallWork.left - size)
    PlainMeanwhile.left = max(0, PlainMeanwhile.left - size)


def kind_in_use() -> str:
    """Return the kind that serves if none is asked for.

    Raises:
        ConfigError: REPUT_KERNELS names a kind that does not exist.
    """
    return _kind(None)


def lasting_kind() -> str | None:
    """Return the kind of kernels that are kept for long: not the plain ones because others are loaded meanwhile."""
    return None if _SmallWork.left > 0 or not PlainMeanwhile.serves() else COMPILED


def _kind(kind: str | None) -> str:
    """Return the kind that is asked for; by default the one that REPUT_KERNELS names, or that suits the work."""
    kind = kind or os.environ.get(SWITCH) or (REFERENCE if is_small_work() else COMPILED)
    if kind not in (COMPILED, REFERENCE):
        raise ConfigError(f"{SWITCH}={kind}: choose {COMPILED} or {REFERENCE}")
    return kind


_LOADING = {kind: threading.RLock() for kind in (COMPILED, REFERENCE)}
"""Held while kernels of a kind are loaded: two threads that import numba at once find it half imported."""


class _KernelChoice(Generic[K]):
    """Kernels of each kind, loaded on first use."""

    def __init__(self, load: Callable[[str], K]) -> None:
        self._load = load
        self._loaded: dict[str, K] = {}
        self.__doc__ = load.__doc__

    def __call__(self, kind: str | None = None) -> K:
        """Return the kernels of a kind; by default the one that REPUT_KERNELS names, or that suits the work.

        Raises:
            ConfigError: there is no such kind.
        """
        kind = _kind(kind)
        found = self._loaded.get(kind)
        if found is None:
            with _LOADING[kind]:
                found = self._loaded.get(kind) or self._load(kind)
                self._loaded[kind] = found
        return found

    def cache_clear(self) -> None:
        """Forget the loaded kernels; the next call loads them again."""
        self._loaded.clear()


def _twin(name: str, kind: str) -> Any:
    """Import the module of some kernels: `reput.kernels.compiled.NAME`, or its twin `reput.kernels.reference.NAME`."""
    return import_module(f"reput.kernels.{kind}.{name}")


def _all_of(names: type[K], module: str, kind: str) -> K:
    """Return the kernels that a named tuple lists, all from one module."""
    found = _twin(module, kind)
    return names(*(getattr(found, name) for name in getattr(names, "_fields")))  # noqa: B009 - a tuple's own


class Kernels(NamedTuple):
    """The kernels of one kind; signatures are in `reput.kernels.reference`, in the modules that `_KERNELS` names."""

    find_boundary: Callable[..., int]
    decode_range: Callable[..., int]
    pack_entries: Callable[..., int]
    chain_items: Callable[..., tuple[int, int]]
    select_entries: Callable[[NDArray[np.uint8], PullRules, NDArray[np.int64]], Choice]
    inner_batches: Callable[..., None]
    further_queues: Callable[..., tuple[int, int]]


_KERNELS = {
    "find_boundary": "examine",
    "decode_range": "decode",
    "pack_entries": "pack",
    "chain_items": "chain",
    "select_entries": "select",
    "inner_batches": "further",
    "further_queues": "further",
}
"""The module of each kernel, the same in both kinds."""


@_KernelChoice
def kernels(kind: str) -> Kernels:
    """Return the kernels of that kind."""
    return Kernels(**{name: getattr(_twin(module, kind), name) for name, module in _KERNELS.items()})


class EncodeKernels(NamedTuple):
    """The kernels that write records; signatures are in `reput.kernels.reference.encode`."""

    lay_out: Callable[[int], int]
    write_records: Callable[[int, int, int, int, int, int], int]
    add_queue: Callable[[int, int, int, int, int], int]
    body_crc: Callable[[bytes], int]


@_KernelChoice
def encode_kernels(kind: str) -> EncodeKernels:
    """Return the encode kernels of that kind; readers never load them."""
    found = _all_of(EncodeKernels, "encode", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return found._replace(body_crc=entry_point(found.body_crc))
    return found


PlaceRecord = Callable[..., Any]


class PlaceKernels(NamedTuple):
    """The kernels of puts, single or in a list; signatures are in `reput.kernels.reference.place`."""

    place_record: PlaceRecord
    place_message: Callable[[int, int, dict[str, int], object, object, int], Any]
    place_messages: Callable[[int, int, dict[str, int], object, object, int, int], int]


@_KernelChoice
def place_kernels(kind: str) -> PlaceKernels:
    """Return the kernels of puts of that kind."""
    found = _all_of(PlaceKernels, "place", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return PlaceKernels(*map(entry_point, found))
    return found


class ClientKernels(NamedTuple):
    """The kernels of clients' batches; signatures are in `reput.kernels.reference.client_batch`."""

    split_batch: Callable[[int, bytes, bytes, int, int], int]
    join_ids: Callable[[bytes, int, int, int], int]


@_KernelChoice
def client_kernels(kind: str) -> ClientKernels:
    """Return the kernels of clients' batches of that kind."""
    found = _all_of(ClientKernels, "client_batch", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return ClientKernels(*map(entry_point, found))
    return found


class LookupKernels(NamedTuple):
    """The kernels that answer a look-up in one call; signatures are in `reput.kernels.reference.lookup`."""

    pull_entries: Callable[[int, int, int, int, int], int]
    seek_time: Callable[[int, int, int], int]
    find_key: Callable[[int, bytes, int, int], int]


@_KernelChoice
def lookup_kernels(kind: str) -> LookupKernels:
    """Return the lookup kernels of that kind."""
    found = _all_of(LookupKernels, "lookup", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return LookupKernels(*map(entry_point, found))
    return found


class ManyKernels(NamedTuple):
    """The kernels that answer many look-ups in one call; signatures are in `reput.kernels.reference.many`."""

    seek_times: Callable[[int], int]
    find_keys: Callable[[int], int]


@_KernelChoice
def many_kernels(kind: str) -> ManyKernels:
    """Return the kernels of many look-ups of that kind."""
    found = _all_of(ManyKernels, "many", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return ManyKernels(*map(entry_point, found))
    return found


class FilterKernels(NamedTuple):
    """The kernels of SQL92 filters; signatures are in `reput.kernels.reference.filter`."""

    find_values: Callable[[PropertyPlaces, TextList, FoundTexts], None]
    first_bytes: Callable[[Texts], None]
    is_one_of: Callable[[Texts, TextList, bool, int, NDArray[np.uint8]], None]
    is_same: Callable[[Texts, Texts, NDArray[np.bool_]], None]
    holds_text: Callable[[Texts, NDArray[np.uint8], bool, bool, NDArray[np.bool_]], None]
    has_wide: Callable[[Texts, NDArray[np.bool_]], None]
    compare_whole: Callable[[Texts, NumberTest, NDArray[np.uint8]], int]
    compare_double: Callable[[Texts, NumberTest, NDArray[np.uint8]], int]
    read_double: Callable[[Texts, NDArray[np.float64], NDArray[np.uint8]], None]
    join_codes: Callable[..., None]


@_KernelChoice
def filter_kernels(kind: str) -> FilterKernels:
    """Return the filters' kernels of that kind."""
    return _all_of(FilterKernels, "filter", kind)


class BacklogKernels(NamedTuple):
    """The kernels of entries that wait for queues' tails; signatures are in `reput.kernels.reference.backlog`."""

    number_rows: Callable[..., int]
    chain_entries: Callable[..., int]
    take_chains: Callable[..., int]
    find_row: Callable[[bytes, int, int, int], int]


@_KernelChoice
def backlog_kernels(kind: str) -> BacklogKernels:
    """Return the backlog's kernels of that kind."""
    found = _all_of(BacklogKernels, "backlog", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return found._replace(find_row=entry_point(found.find_row))
    return found


class FieldKernels(NamedTuple):
    """The kernels that turn records into columns; signatures are in `reput.kernels.reference.fields`."""

    read_fields: Callable[..., int]
    gather_bytes: Callable[..., int]
    gather_pairs: Callable[..., int]
    are_equal: Callable[..., bool]
    spell_ids: Callable[..., int]


@_KernelChoice
def field_kernels(kind: str) -> FieldKernels:
    """Return the field kernels of that kind."""
    return _all_of(FieldKernels, "fields", kind)


class LineKernels(NamedTuple):
    """The kernel that writes lines of records; its signature is in `reput.kernels.reference.lines`."""

    write_lines: Callable[..., tuple[int, int, int]]


@_KernelChoice
def line_kernels(kind: str) -> LineKernels:
    """Return the line kernel of that kind."""
    return _all_of(LineKernels, "lines", kind)


class TableKernels(NamedTuple):
    """The kernels that write RocksDB's tables; signatures are in `reput.kernels.reference.table`."""

    pack_values: Callable[..., None]
    fill_blocks: Callable[..., int]
    hash_bytes: Callable[[bytes], int]


@_KernelChoice
def table_kernels(kind: str) -> TableKernels:
    """Return the tables' kernels of that kind."""
    found = _all_of(TableKernels, "table", kind)
    if kind == COMPILED:
        from reput.kernels.compiled.tools.jit import entry_point

        return found._replace(hash_bytes=entry_point(found.hash_bytes))
    return found


class KeyKernels(NamedTuple):
    """The kernel that makes the keys of the index database; its signature is in `reput.kernels.reference.keys`."""

    gather_keys: Callable[..., int]


@_KernelChoice
def key_kernels(kind: str) -> KeyKernels:
    """Return the kernel of the index database's keys of that kind."""
    return _all_of(KeyKernels, "keys", kind)
