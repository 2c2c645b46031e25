"""config/delayOffset.json: how far the broker has delivered each delay level.

    dataVersion     counter, stateVersion, timestamp (ms)
    offsetTable     delay level -> queue offset of the next message of queue level - 1 of SCHEDULE_TOPIC_XXXX

fastjson writes the levels as keys without quotes, so JSON parsers refuse the file.

Source: `ScheduleMessageService.encode`, `DelayOffsetSerializeWrapper`.
"""

from __future__ import annotations

from reput.errors import DamagedStoreError
from reput.formats.fastjson import parse_fastjson
from reput.formats.java_numbers import parse_whole

FILE_NAME = "delayOffset.json"
BACKUP_NAME = f"{FILE_NAME}.bak"
SIZE_LIMIT = 1 << 20
"""The maximum bytes of a file to be read."""


def decode_delay_offsets(data: bytes, where: str) -> dict[int, int]:
    """Return the queue offset of the next message of each level; levels start at 1.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    value = parse_fastjson(data)
    table = (value.get("offsetTable") or {}) if isinstance(value, dict) else None
    if not isinstance(table, dict) or any(parse_whole(level, 32) is None for level in table):
        raise DamagedStoreError(
            f"{where}: damaged: {data[:40]!r} is no JSON with a table of levels. A broker that starts reads "
            f"{BACKUP_NAME} then; restore the file from a copy"
        )
    return {int(level): offset for level, offset in table.items() if type(offset) is int and offset >= 0}
