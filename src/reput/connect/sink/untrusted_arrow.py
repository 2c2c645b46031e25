"""Reading of an Arrow stream that anybody may have written.

Arrow checks the metadata of a stream, and believes the values in its buffers: offsets of a column of text may lead
anywhere. It inflates compressed buffers to any size that they name, and some columns have more values than bytes. So a
stream has few columns of few types, a compressed batch is refused before it is read, and each batch is validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from reput.formats.own.arrow_metadata import is_compressed

_MOST_COLUMNS: Final = 32


def read_stream(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream; nothing is larger in memory than in the stream.

    Raises:
        ValueError: It is no stream of plain batches whose values are sound.
    """
    try:
        for number, message in enumerate(pa.ipc.MessageReader.open_stream(pa.py_buffer(data))):
            if message.type != ("record batch" if number else "schema"):
                raise ValueError(f"its message {number} is of type {message.type}")
            if number and is_compressed(memoryview(message.metadata)):
                raise ValueError("a batch is compressed")
        with pa.ipc.open_stream(data) as stream:
            _refuse_columns(stream.schema)
            for batch in stream:
                batch.validate(full=True)
                if batch.num_rows > len(data):
                    raise ValueError(f"a batch of {batch.num_rows} rows is not in {len(data)} bytes")
                yield batch
    except (pa.ArrowException, OSError) as error:
        # Arrow calls a stream that is cut an OSError.
        raise ValueError(str(error)) from error


def _refuse_columns(schema: pa.Schema) -> None:
    """Refuse columns of which a value takes no byte, or in which values share bytes: views, runs, nulls.

    Raises:
        ValueError: There is such a column, or there are very many.
    """
    if len(schema) > _MOST_COLUMNS:
        raise ValueError(f"it has {len(schema)} columns, more than {_MOST_COLUMNS}")
    for field in schema:
        if not all(map(_is_plain, _parts(field.type))):
            raise ValueError(f"column {field.name!r:.80} is of type {field.type}")


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of which a column is made."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else [kind]


def _is_plain(kind: pa.DataType) -> bool:
    kinds = pa.types
    tests = kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary, kinds.is_integer
    return any(is_of_kind(kind) for is_of_kind in tests)
