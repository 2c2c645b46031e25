"""Bodies as commands show them: decompressed, or as they are stored (`--body`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli.shared import output
from reput.formats.log.body import MAX_DECODED_BODY_SIZE, BodyError, decode_body
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED

if TYPE_CHECKING:
    from reput.config import StoreConfig
    from reput.formats.log.record import Record

DECODED, RAW = "decoded", "raw"
_SHOWN = 20

body_form_option = click.option(
    "--body",
    "body_form",
    type=click.Choice([DECODED, RAW]),
    default=DECODED,
    show_default=True,
    help="Show bodies as a consumer gets them, decompressed, or as they are stored.",
)


class ShownBody(NamedTuple):
    """A body, the flags that go with it, and the reason why it cannot be decompressed; it is empty then."""

    body: bytes
    sys_flag: int
    error: str | None = None


class Bodies:
    """Gives the bodies of records; `bad` counts those that cannot be decompressed.

    Raises nothing for such a body: the first of them are named on stderr, and the command goes on.
    """

    def __init__(self, form: str = RAW, config: StoreConfig | None = None) -> None:
        self.is_decoding = form == DECODED
        self.max_size = (config.max_decoded_body_size if config else None) or MAX_DECODED_BODY_SIZE
        self.bad = 0

    def of(self, record: Record) -> ShownBody:
        """Return the body of a record."""
        if not self.is_decoding or not record.sys_flag & FLAG_COMPRESSED:
            return ShownBody(record.body, record.sys_flag)
        sys_flag = record.sys_flag & ~(FLAG_COMPRESSED | COMPRESSION_MASK)
        try:
            return ShownBody(decode_body(record.body, record.sys_flag, self.max_size), sys_flag)
        except BodyError as error:
            self.bad += 1
            if self.bad <= _SHOWN:
                output.say(f"damage: log offset {record.physical_offset}: the body cannot be decompressed: {error}")
            return ShownBody(b"", sys_flag, str(error))

    def code(self, code: int = 0) -> int:
        """Return the exit code of a command that is done: 1 if a body could not be decompressed."""
        if self.bad:
            output.say(f"note: --body {RAW} shows the stored bytes of bodies that cannot be decompressed ({self.bad})")
        return code or int(self.bad > 0)


AS_STORED = Bodies()
"""Bodies as records hold them."""
