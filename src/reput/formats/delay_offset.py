"""config/delayOffset.json: how far the broker has delivered each delay level.

    dataVersion     counter, stateVersion, timestamp (ms)
    offsetTable     delay level -> queue offset of the next message of queue level - 1 of SCHEDULE_TOPIC_XXXX

fastjson writes the levels as keys without quotes, so JSON parsers refuse the file.

Source: `ScheduleMessageService.encode`, `DelayOffsetSerializeWrapper`.
"""

from __future__ import annotations

import json
import re

from reput.errors import DamagedStoreError

FILE_NAME = "delayOffset.json"
BACKUP_NAME = f"{FILE_NAME}.bak"
SIZE_LIMIT = 1 << 20
"""The maximum bytes of a file to be read."""
_BARE_KEY = re.compile(rb"([{,]\s*)([0-9]{1,9})(\s*:)")


def decode_delay_offsets(data: bytes, where: str) -> dict[int, int]:
    """Return the queue offset of the next message of each level; levels start at 1.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    try:
        table = json.loads(_BARE_KEY.sub(rb'\1"\2"\3', data)).get("offsetTable") or {}
        return {int(level): offset for level, offset in table.items() if isinstance(offset, int) and offset >= 0}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedStoreError(
            f"{where}: damaged: {error}. A broker that starts reads {BACKUP_NAME} then; restore the file from a copy"
        ) from error
