"""Bodies as commands show them: decompressed, or as they are stored (`--body`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli.shared import output
from reput.formats.log.body import MAX_DECODED_BODY_SIZE, BodyError, decode_body
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED, body_matches_crc

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
    """A body, the flags that go with it, and what is wrong with it.

    `error` is the reason why it cannot be decompressed; it is empty then. `is_damaged`: it does not match its CRC.
    """

    body: bytes
    sys_flag: int
    error: str | None = None
    is_damaged: bool = False


WRONG_CRC = "the body does not match its CRC"


class Bodies:
    """Gives the bodies of records; `bad` counts those that cannot be decompressed, `damaged` those with a wrong CRC.

    With `verify_crc` CRCs are compared; a command whose walk has done so leaves it out.
    Raises nothing for such a body: the first of them are named on stderr, and the command goes on.
    """

    def __init__(self, form: str = RAW, config: StoreConfig | None = None, *, verify_crc: bool = False) -> None:
        self.is_decoding, self.verify_crc = form == DECODED, verify_crc
        self.max_size = (config.max_decoded_body_size if config else None) or MAX_DECODED_BODY_SIZE
        self.bad = self.damaged = 0

    def of(self, record: Record) -> ShownBody:
        """Return the body of a record."""
        is_damaged = self.verify_crc and not body_matches_crc(record)
        if is_damaged:
            self.damaged += 1
            if self.damaged <= _SHOWN:
                output.say(f"damage: log offset {record.physical_offset}: {WRONG_CRC}")
        return self._decoded(record)._replace(is_damaged=is_damaged)

    def _decoded(self, record: Record) -> ShownBody:
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
        """Return the exit code of a command that is done: 1 if a body could not be decompressed, or is damaged."""
        if self.damaged:
            output.say(
                f"note: {output.counted(self.damaged, 'shown body does', 'shown bodies do')} not match the CRC: "
                "`reput check` says what else is damaged; restore the log file from a replica or a backup"
            )
        if self.bad:
            output.say(f"note: --body {RAW} shows the stored bytes of bodies that cannot be decompressed ({self.bad})")
        return code or int(self.bad + self.damaged > 0)


AS_STORED = Bodies()
"""Bodies as records hold them."""
