"""The store's checkpoint file."""

from __future__ import annotations

import struct

from reput.files import fs
from reput.formats.checkpoint import CHECKPOINT, CHECKPOINT_FILE_SIZE, Checkpoint, decode_checkpoint
from reput.store.disk.layout import StoreLayout


def read_checkpoint(layout: StoreLayout) -> Checkpoint:
    """Read the store's checkpoint; zeros if it is missing or too short."""
    data = fs.read_bytes(layout.checkpoint, CHECKPOINT_FILE_SIZE) or b""
    try:
        return decode_checkpoint(data)
    except struct.error:
        return Checkpoint()


def write_checkpoint(layout: StoreLayout, owner: fs.Owner, **fields: int) -> None:
    """Write these fields of the checkpoint durably, and no others: another process may write the rest."""
    for name, value in fields.items():
        data = CHECKPOINT.struct_of(name).pack(value)
        fs.write_at(str(layout.checkpoint), CHECKPOINT_FILE_SIZE, owner, data, CHECKPOINT.offsets[name])
    if fields:
        fs.sync_path(layout.checkpoint)
