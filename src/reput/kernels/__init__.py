"""Loops over bytes, in two twins: plain Python that is the specification, and compiled code that is fast.

`REPUT_KERNELS=reference` takes the plain ones everywhere, `compiled` (the default) the numba ones; both fill
the same arrays and are tested against each other. Importing this package imports neither.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCH = "REPUT_KERNELS"


class Kernels(NamedTuple):
    """The kernels of one kind; signatures stand in `reput.kernels.reference`."""

    find_boundary: Callable[..., int]
    decode_range: Callable[..., int]
    pack_entries: Callable[..., int]
    chain_items: Callable[..., tuple[int, int]]
    select_entries: Callable[..., tuple[int, int, int, int, int]]
    inner_batches: Callable[..., None]
    further_queues: Callable[..., tuple[int, int]]


@cache
def kernels(kind: str | None = None) -> Kernels:
    """The kernels of that kind, by default the one that REPUT_KERNELS names.

    Raises:
        ConfigError: there is no such kind.
    """
    kind = kind or os.environ.get(SWITCH, "compiled")
    if kind == "compiled":
        from reput.kernels.compiled import chain, decode, examine, further, pack, select

        return Kernels(
            examine.find_boundary,
            decode.decode_range,
            pack.pack_entries,
            chain.chain_items,
            select.select_entries,
            further.inner_batches,
            further.further_queues,
        )
    if kind == "reference":
        from reput.kernels import reference, reference_further, reference_select

        return Kernels(
            reference.find_boundary,
            reference.decode_range,
            reference.pack_entries,
            reference.chain_items,
            reference_select.select_entries,
            reference_further.inner_batches,
            reference_further.further_queues,
        )
    raise ConfigError(f"{SWITCH}={kind}: choose compiled or reference")


class EncodeKernels(NamedTuple):
    """The kernels that write records; signatures stand in `reput.kernels.reference_encode`."""

    measure_records: Callable[..., tuple[int, int]]
    encode_records: Callable[..., int]


@cache
def encode_kernels(kind: str | None = None) -> EncodeKernels:
    """The encode kernels of that kind, by default the one that REPUT_KERNELS names; readers never load them.

    Raises:
        ConfigError: there is no such kind.
    """
    kind = kind or os.environ.get(SWITCH, "compiled")
    if kind == "compiled":
        from reput.kernels.compiled import encode

        return EncodeKernels(encode.measure_records, encode.encode_records)
    if kind == "reference":
        from reput.kernels import reference_encode

        return EncodeKernels(reference_encode.measure_records, reference_encode.encode_records)
    raise ConfigError(f"{SWITCH}={kind}: choose compiled or reference")


class FilterKernels(NamedTuple):
    """The kernels of SQL92 filters; signatures stand in `reput.kernels.reference_filter`."""

    locate_properties: Callable[..., None]
    find_values: Callable[..., None]
    is_one_of: Callable[..., None]
    is_same: Callable[..., None]
    holds_text: Callable[..., None]
    has_wide: Callable[..., None]
    read_whole: Callable[..., None]
    read_double: Callable[..., None]


@cache
def filter_kernels(kind: str | None = None) -> FilterKernels:
    """The filters' kernels of that kind, by default the one that REPUT_KERNELS names.

    Raises:
        ConfigError: there is no such kind.
    """
    kind = kind or os.environ.get(SWITCH, "compiled")
    module: Any
    if kind == "compiled":
        from reput.kernels.compiled import filter as module
    elif kind == "reference":
        from reput.kernels import reference_filter as module
    else:
        raise ConfigError(f"{SWITCH}={kind}: choose compiled or reference")
    return FilterKernels(*(getattr(module, name) for name in FilterKernels._fields))


class FieldKernels(NamedTuple):
    """The kernels that turn records into columns; signatures stand in `reput.kernels.reference_fields`."""

    read_fields: Callable[..., int]
    gather_bytes: Callable[..., int]
    gather_pairs: Callable[..., int]


@cache
def field_kernels(kind: str | None = None) -> FieldKernels:
    """The field kernels of that kind, by default the one that REPUT_KERNELS names.

    Raises:
        ConfigError: there is no such kind.
    """
    kind = kind or os.environ.get(SWITCH, "compiled")
    if kind == "compiled":
        from reput.kernels.compiled import fields

        return FieldKernels(fields.read_fields, fields.gather_bytes, fields.gather_pairs)
    if kind == "reference":
        from reput.kernels import reference_fields

        return FieldKernels(reference_fields.read_fields, reference_fields.gather_bytes, reference_fields.gather_pairs)
    raise ConfigError(f"{SWITCH}={kind}: choose compiled or reference")


def decode_arguments(columns: Any) -> tuple[Any, ...]:
    """The arrays of `columns` in the order in which the decode kernels take them."""
    return (
        columns.position,
        columns.size,
        columns.queue,
        columns.queue_offset,
        columns.tags_code,
        columns.store_timestamp,
        columns.flags,
        columns.first_item,
        columns.item_hash,
        *queue_arguments(columns),
    )


def queue_arguments(columns: Any) -> tuple[Any, ...]:
    """The arrays of the table of queues, and the state, in the order in which kernels take them."""
    return (
        columns.queue_id,
        columns.topic_at,
        columns.topic_size,
        columns.topic_hash,
        columns.is_schedule,
        columns.names,
        columns.queue_table,
        columns.queue_key,
        columns.state,
    )
