"""Bodies of rows as a consumer gets them: the compressed ones are decompressed, each with its own error.

Rows without a compressed body cost one look at the column of their flags.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from reput.connect.scan.arrays import DecodedBodies, Int64s, Rows
from reput.formats.log.body import BodyError, decode_body
from reput.formats.log.record import FLAG_COMPRESSED
from reput.kernels.layouts.fields import FieldRow

_log = logging.getLogger("reput.connect")


def decoded_parts(rows: Rows, part_bytes: int) -> Iterator[Rows]:
    """Yield the rows with their bodies decoded, in parts of about `part_bytes` of decoded bodies, so memory is bounded.

    A body that cannot be decoded is null, and its row's error says why.
    """
    compressed = np.flatnonzero(rows.table[FieldRow.SYS_FLAG] & FLAG_COMPRESSED)
    if not len(compressed):
        yield rows
        return
    begin, first = 0, 0
    bodies: list[bytes | None] = []
    errors: list[str | None] = []
    size = 0
    for count, number in enumerate(compressed.tolist(), 1):
        body, error = _decoded(rows, number)
        bodies.append(body)
        errors.append(error)
        size += 0 if body is None else len(body)
        end = number + 1 if count < len(compressed) else len(rows)
        if size >= part_bytes or end == len(rows):
            yield _part(rows, begin, end, DecodedBodies(compressed[first:count], bodies, errors))
            begin, first, bodies, errors, size = end, count, [], [], 0


def _part(rows: Rows, begin: int, end: int, decoded: DecodedBodies) -> Rows:
    found = [error for error in decoded.error if error is not None]
    if found:
        _log.warning("%s: bodies that cannot be decoded: %d, the first at %s", rows.log.path, len(found), found[0])
    part = rows.taken(slice(begin, end))
    numbers: Int64s = (decoded.number - begin).astype(np.int64)
    part.decoded = decoded._replace(number=numbers)
    return part


def _decoded(rows: Rows, number: int) -> tuple[bytes | None, str | None]:
    """Return a row's body, or the reason why it cannot be decoded."""
    at, size, flags = rows.table[[FieldRow.BODY_AT, FieldRow.BODY_SIZE, FieldRow.SYS_FLAG], number].tolist()
    try:
        return decode_body(rows.log.buffer[at : at + size].data, flags, rows.needs.decoded_size), None
    except BodyError as error:
        return None, f"log offset {int(rows.places[number])}: {error}"
