"""Lines of many records at once, from columns, without a Python object for each record.

A `LineForm` describes a line twice: as a program for the line kernel, and as a function for the few records that the
kernel leaves (see `reput.kernels.reference.lines`). Both make the same line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.cli.shared import output
from reput.cli.shared.bodies import AS_STORED
from reput.cli.shared.parts import TRANSACTIONS, body_values, record_cells, record_values
from reput.formats.log import record as formats
from reput.kernels import field_kernels, line_kernels
from reput.kernels.layouts.fields import FIND_PROPERTIES, SIZE_BELOW, FieldRow
from reput.kernels.layouts.lines import WHOLE, LinePiece, LineProgram, More, Stopped, line_table
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.texts import second_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.cli.shared.bodies import Bodies
    from reput.formats.log.record import Record

_OUT_BYTES = 1 << 20
_V2_BYTE = formats.MAGIC_V2 & 0xFF
_FLAGS = formats.TRANSACTION_MASK | formats.FLAG_COMPRESSED | formats.COMPRESSION_MASK

LineStep = tuple[LinePiece, int, int] | bytes
"""A piece of a line with its arguments, or a text."""


class LineForm(NamedTuple):
    """The form of a record's line: steps of the kernel, a function for one record, and a function that writes lines.

    The kernel shows bodies as they are stored. If `bodies` decompresses, the function makes the lines of those.
    """

    steps: Sequence[LineStep]
    one: Callable[[Record], bytes]
    write: Callable[[bytes | memoryview], None]
    bodies: Bodies = AS_STORED


# --- forms ----------------------------------------------------------------------------------------


def _number(row: int) -> LineStep:
    return (LinePiece.NUMBER, row, 0)


_MEMBERS: tuple[tuple[str, Sequence[LineStep]], ...] = (
    ("physical_offset", [_number(More.POSITION)]),
    ("size", [_number(More.SIZE)]),
    ("version", [_number(More.VERSION)]),
    ("topic", [(LinePiece.STRING, FieldRow.TOPIC_AT, 0)]),
    ("queue_id", [_number(FieldRow.QUEUE_ID)]),
    ("queue_offset", [_number(FieldRow.QUEUE_OFFSET)]),
    ("store_timestamp", [_number(FieldRow.STORE_TIMESTAMP)]),
    ("born_timestamp", [_number(FieldRow.BORN_TIMESTAMP)]),
    ("store_host", [(LinePiece.TEXT_OF, More.STORE_HOST, 0)]),
    ("born_host", [(LinePiece.TEXT_OF, More.BORN_HOST, 0)]),
    ("message_id", [b'"', (LinePiece.HEX, FieldRow.STORE_HOST_AT, 0), (LinePiece.HEX_NUMBER, More.POSITION, 0), b'"']),
    ("unique_key", [(LinePiece.STRING, FieldRow.UNIQUE_KEY_AT, 0)]),
    ("tags", [(LinePiece.STRING, FieldRow.TAGS_AT, 0)]),
    ("keys", [(LinePiece.WORDS, FieldRow.KEYS_AT, 0)]),
    ("flag", [_number(FieldRow.FLAG)]),
    ("sys_flag", [_number(FieldRow.SYS_FLAG)]),
    ("transaction", [(LinePiece.TEXT_OF, More.TRANSACTION, 0)]),
    ("compression", [(LinePiece.TEXT_OF, More.COMPRESSION, 0)]),
    ("reconsume_times", [_number(FieldRow.RECONSUME_TIMES)]),
    ("prepared_transaction_offset", [_number(FieldRow.PREPARED_OFFSET)]),
    ("body_crc", [_number(FieldRow.BODY_CRC)]),
    ("properties", [(LinePiece.MAP, FieldRow.PROPERTIES_AT, 0)]),
)
"""The members of `record_values` before those of the body."""


def json_form(body_bytes: int | None = None, bodies: Bodies = AS_STORED) -> LineForm:
    """Return the form of `record_values` as a JSON object on each line."""
    steps: list[LineStep] = []
    for name, pieces in _MEMBERS:
        steps += [f'{", " if steps else "{"}"{name}": '.encode(), *pieces]
    steps += [b", ", (LinePiece.BODY, FieldRow.BODY_AT, WHOLE if body_bytes is None else body_bytes), b"}\n"]
    return LineForm(
        steps,
        lambda record: output.json_line(record_values(record, body_bytes, bodies)),
        output.show_bytes,
        bodies,
    )


def cells_form(body_bytes: int | None, bodies: Bodies = AS_STORED) -> LineForm:
    """Return the form of log offset and `record_cells`, with tabs between. WHOLE `body_bytes` show the whole body."""
    steps: list[LineStep] = [
        _number(More.POSITION), b"\t",
        (LinePiece.TEXT_OF, More.SECOND, 0), (LinePiece.MILLISECONDS, More.MILLISECOND, 0),
        (LinePiece.TEXT_OF, More.ZONE, 0),
        b"\t", (LinePiece.CELL, FieldRow.TOPIC_AT, 0), b"/", _number(FieldRow.QUEUE_ID),
        b"\t", _number(FieldRow.QUEUE_OFFSET), b"\t", _number(More.SIZE),
        b"\t", (LinePiece.CELL, FieldRow.TAGS_AT, 0), b"\t", (LinePiece.KEYS_CELL, 0, 0),
    ]  # fmt: skip
    if body_bytes is not None:
        steps += [b"\t", (LinePiece.BODY_CELL, FieldRow.BODY_AT, body_bytes)]

    def one(record: Record) -> bytes:
        cut = bodies.max_size if body_bytes == WHOLE else body_bytes
        return "\t".join((str(record.physical_offset), *record_cells(record, cut, bodies))).encode() + b"\n"

    return LineForm([*steps, b"\n"], one, output.show_lines, bodies)


def body_form(bodies: Bodies = AS_STORED) -> LineForm:
    r"""Return the form of a body on each line: text with newlines as `\n` if it is UTF-8, otherwise base64."""

    def one(record: Record) -> bytes:
        shown = bodies.of(record)
        if shown.error is not None:
            return f"error:{shown.error}\n".encode()
        values = body_values(shown.body)
        if values["body_encoding"] == "text":
            return str(values["body"]).replace("\n", "\\n").encode() + b"\n"
        return f"base64:{values['body']}\n".encode()

    return LineForm([(LinePiece.BODY_LINE, FieldRow.BODY_AT, WHOLE), b"\n"], one, output.show_lines, bodies)


def raw_form(delimiter: bytes, bodies: Bodies = AS_STORED) -> LineForm:
    """Return the form of a body's bytes, without any encoding, and the delimiter."""
    return LineForm(
        [(LinePiece.BYTES, FieldRow.BODY_AT, 0), delimiter],
        lambda record: bodies.of(record).body + delimiter,
        output.show_bytes,
        bodies,
    )


# --- writing --------------------------------------------------------------------------------------


class LineWriter:
    """Writes records as lines of one form."""

    def __init__(self, form: LineForm) -> None:
        self.form = form
        self._texts = [step for step in form.steps if isinstance(step, bytes)]
        program, texts = [], 0
        for step in form.steps:
            if isinstance(step, bytes):
                program.append((int(LinePiece.TEXT), 0, texts))
                texts += 1
            else:
                program.append((int(step[0]), int(step[1]), step[2]))
        self._steps: NDArray[np.int64] = np.array(program, dtype=np.int64).reshape(-1, 3)
        # A record whose body does not match stops the kernel: its line is made by `one`, which names it.
        self._crc_check = formats.CHECK_BODY if form.bodies.verify_crc else formats.CHECK_NONE
        self._rows = {int(step[1]) for step in form.steps if not isinstance(step, bytes)}
        self._out: NDArray[np.uint8] = np.empty(_OUT_BYTES, dtype=np.uint8)

    def write(self, buffer: NDArray[np.uint8], base: int, position: NDArray[np.int64], size: NDArray[np.int32]) -> None:
        """Write the records at some log offsets; `buffer[0]` is at log offset `base`.

        Raises:
            DamagedLogError: One of the offsets has no record; the records before it are written.
        """
        done = 0
        while done < len(position):
            table, readable = fields_of(buffer, base, position[done:], size[done:], self._crc_check)
            if readable:
                self._write_runs(buffer, base, table)
            done += readable
            if done < len(position):
                self._write_one(buffer, base, int(position[done]), int(size[done]))
                done += 1

    def _write_runs(self, buffer: NDArray[np.uint8], base: int, table: NDArray[np.int64]) -> None:
        """Write rows; those whose bodies are to be decompressed one by one."""
        flags = table[FieldRow.SYS_FLAG] & formats.FLAG_COMPRESSED
        if not self.form.bodies.is_decoding or not flags.any():
            self._write_rows(buffer, base, table)
            return
        begin = 0
        for number in [*np.flatnonzero(flags).tolist(), table.shape[1]]:
            if number > begin:
                self._write_rows(buffer, base, np.ascontiguousarray(table[:, begin:number]))
            if number < table.shape[1]:
                self._write_one(buffer, base, int(table[More.POSITION, number]), int(table[More.SIZE, number]))
            begin = number + 1

    def _write_rows(self, buffer: NDArray[np.uint8], base: int, table: NDArray[np.int64]) -> None:
        texts = list(self._texts)
        self._add_columns(buffer, base, table, texts)
        text_at: NDArray[np.int64] = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=text_at[1:])
        data = np.frombuffer(b"".join(texts) or b"\0", dtype=np.uint8)
        write_lines, lines = line_kernels().write_lines, LineProgram(self._steps, data, text_at)
        begin, count = 0, table.shape[1]
        while begin < count:
            begin, used, why = write_lines(buffer, table, begin, lines, self._out)
            if used:
                self.form.write(self._out.data[:used])
            elif why == Stopped.FULL:
                self._out = np.empty(2 * len(self._out), dtype=np.uint8)
            if why == Stopped.LEFT:
                self._write_one(buffer, base, int(table[More.POSITION, begin]), int(table[More.SIZE, begin]))
                begin += 1

    def _write_one(self, buffer: NDArray[np.uint8], base: int, position: int, size: int) -> None:
        from reput.store.read.message import StoredMessage

        at = position - base
        self.form.write(self.form.one(StoredMessage(buffer.data[at : at + size], base, at).record))

    def _add_columns(self, buffer: NDArray[np.uint8], base: int, table: NDArray[np.int64], texts: list[bytes]) -> None:
        """Fill the rows of `More` that the form needs."""
        rows = self._rows
        if More.VERSION in rows:
            magic = buffer[table[More.POSITION] - base + formats.MAGIC_AT + 3]
            table[More.VERSION] = np.where(magic == _V2_BYTE, 2, 1)
        if More.SECOND in rows:
            _add_times(table, texts)
        for row, at in ((More.STORE_HOST, FieldRow.STORE_HOST_AT), (More.BORN_HOST, FieldRow.BORN_HOST_AT)):
            if row in rows:
                _add_hosts(buffer, table, row, at, texts)
        if More.TRANSACTION in rows:
            flags, place = np.unique(table[FieldRow.SYS_FLAG] & _FLAGS, return_inverse=True)
            for row, text_of in ((More.TRANSACTION, _transaction_text), (More.COMPRESSION, _compression_text)):
                table[row] = len(texts) + place
                texts += map(text_of, flags.tolist())


def fields_of(
    buffer: NDArray[np.uint8],
    base: int,
    position: NDArray[np.int64],
    size: NDArray[np.int32],
    crc_check: int = formats.CHECK_NONE,
) -> tuple[NDArray[np.int64], int]:
    """Return the fields of the first records, up to one that the kernel cannot read, and their number."""
    table = line_table(len(position))
    log, places = LogBytes.whole(buffer, base), RecordPlaces(position, size)
    found = field_kernels().read_fields(log, places, crc_check, FIND_PROPERTIES, table[: len(FieldRow)])
    table = table if found == len(position) else np.ascontiguousarray(table[:, :found])
    table[More.POSITION], table[More.SIZE] = position[:found], size[:found]
    return table, int(found)


def _add_times(table: NDArray[np.int64], texts: list[bytes]) -> None:
    """Add the texts of the store times, as `time_text` writes them."""
    stored = table[FieldRow.STORE_TIMESTAMP]
    seconds, place = np.unique(stored // 1000, return_inverse=True)
    table[More.MILLISECOND] = stored % 1000
    table[More.SECOND], table[More.ZONE] = len(texts) + 2 * place, len(texts) + 2 * place + 1
    odd = []
    for number, second in enumerate(seconds.tolist()):
        try:
            begin, zone = second_texts(second)
        except (OverflowError, OSError, ValueError):
            odd.append(number)
            begin = zone = ""
        texts += (f"{begin}.".encode(), zone.encode())
    for row in np.flatnonzero(np.isin(place, odd)).tolist():
        # A time that is no date is shown as a number.
        table[[More.SECOND, More.ZONE, More.MILLISECOND], row] = len(texts), len(texts) + 1, -1
        texts += (b"%d" % stored[row], b"")


def _add_hosts(buffer: NDArray[np.uint8], table: NDArray[np.int64], row: int, at: int, texts: list[bytes]) -> None:
    """Add the texts of hosts as JSON; few are distinct, and each text is made once."""
    for size in (formats.HOST_V4_SIZE, formats.HOST_V6_SIZE):
        rows = np.flatnonzero(table[at + SIZE_BELOW] == size)
        if not len(rows):
            continue
        raw: NDArray[Any] = buffer[table[at, rows][:, None] + np.arange(size)]
        hosts, place = np.unique(raw.view(np.int64 if size == 8 else f"V{size}").reshape(-1), return_inverse=True)
        table[row, rows] = len(texts) + place
        texts += (b'"%b"' % str(formats.Host.decode(host.tobytes())).encode() for host in hosts)


def _transaction_text(sys_flag: int) -> bytes:
    name = TRANSACTIONS.get(sys_flag & formats.TRANSACTION_MASK)
    return b"null" if name is None else f'"{name}"'.encode()


def _compression_text(sys_flag: int) -> bytes:
    name = formats.COMPRESSION_NAMES.get(sys_flag & formats.COMPRESSION_MASK)
    return f'"{name}"'.encode() if sys_flag & formats.FLAG_COMPRESSED and name is not None else b"null"
