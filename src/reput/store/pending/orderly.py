"""Messages that orderly pop consumers hold: config/consumerOrderInfo.json, which a broker writes every 10 seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import order_info
from reput.formats.order_info import decode_order_info
from reput.formats.pop_database import PopRecord

ORDERLY = order_info.FILE_NAME


def held_in_order(config: Path, damage: list[str]) -> Iterator[PopRecord]:
    """Yield the messages that orderly consumers hold, by queue; from the backup if the file is missing or damaged.

    Args:
        config: the store's folder `config`.
        damage: gets what cannot be read.
    """
    for name in (order_info.FILE_NAME, order_info.BACKUP_NAME):
        data = fs.read_bytes(config / name, order_info.SIZE_LIMIT)
        if not data:
            continue
        try:
            found = list(decode_order_info(data, str(config / name)))
        except DamagedStoreError as error:
            damage.append(str(error))
            continue
        yield from found
        return
