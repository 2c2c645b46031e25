"""Any bytes in a log: its frame holds the plain and committed messages, with sound Arrow columns."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from reput.formats.log.properties import text_properties
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support import frames, stores
from support.records import LogBuilder, logs

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@given(log=logs(min_records=1))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_frame_is_what_the_log_says(log: LogBuilder) -> None:
    """Records with any values, hostile properties among them, become rows that any Arrow reader takes."""
    with tempfile.TemporaryDirectory() as folder:
        store = stores.with_log(Path(folder), log)
        table = frames.table(store, body="raw")
        frames.table(store).validate(full=True)
        table.validate(full=True)
        walk = LogWalk(list_log_files(store / "commitlog"), log.start)
        records = [found.decode() for found in walk]
        kept = [record for record in records if record.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)]
        rows = table.drop_columns(["bornTimestamp", "storeTimestamp"]).to_pylist()
        assert [row["physicalOffset"] for row in rows] == [record.physical_offset for record in kept]
        for row, record in zip(rows, kept, strict=True):
            assert row["body"] == record.body
            assert dict(row["properties"]) == text_properties(record.properties)
            assert row["keys"] == text_properties(record.properties).get("KEYS")
            assert row["tags"] == text_properties(record.properties).get("TAGS")
            assert row["bornHost"] == str(record.born_host)
            assert row["offsetMsgId"] == record.message_id
        for name, times in (
            ("bornTimestamp", [record.born_timestamp for record in kept]),
            ("storeTimestamp", [record.store_timestamp for record in kept]),
        ):
            reported = table[name].cast("int64").to_pylist()
            assert reported == [time * 1000 if FIRST_MS <= time <= LAST_MS else None for time in times]
