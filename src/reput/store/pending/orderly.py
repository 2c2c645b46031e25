"""Messages that orderly pop consumers hold: config/consumerOrderInfo.json, which a broker writes every 10 seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.files.backed_up import BackedUpFile, BackedUpKind
from reput.formats.pending import order_info
from reput.formats.pending.order_info import decode_order_info
from reput.formats.pending.pop_database import PopRecord

ORDERLY = order_info.FILE_NAME


def held_in_order(config: Path, damage: list[str]) -> Iterator[PopRecord]:
    """Yield the messages that orderly consumers hold, by queue; from the backup if the file is missing or damaged.

    Args:
        config: the store's folder `config`.
        damage: gets what cannot be read.
    """
    try:
        found = BackedUpFile(config / order_info.FILE_NAME, _KIND).load()
    except DamagedStoreError as error:
        damage.append(str(error))
        return
    damage += found.notes
    yield from found.content


def _decoded(data: bytes, where: str) -> list[PopRecord]:
    return list(decode_order_info(data, where))


_KIND: BackedUpKind[list[PopRecord]] = BackedUpKind(
    _decoded,
    [],
    order_info.SIZE_LIMIT,
    "Messages that orderly consumers hold were read from {}, which is older",
    "messages that orderly consumers hold are then unknown",
)
