"""Reports of what tasks read: true, and small for a narrow question; errors end with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import ConfigError
from support import frames, golden

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

pytestmark = pytest.mark.golden


def basic() -> Path:
    """A golden store, for reading only."""
    return golden.shared("basic")


def test_bytes_really_read(tmp_path: Path) -> None:
    """A whole scan looks at the whole log once; a queue's few entries, or a key, at their records and no more."""
    whole, few, key = (str(tmp_path / name) for name in ("whole", "few", "key"))
    table = frames.table(basic(), readReport=whole)
    snapshot = frames.plan(basic()).snapshot
    reported = reput.read_report(whole)
    assert (reported.rows, reported.queue_bytes) == (len(table), 0)
    # After the last record of a file lies a blank.
    assert snapshot.end - snapshot.begin >= reported.log_bytes >= sum(table["storeSize"].to_pylist())
    edges = {"startingOffsets": '{"orders": {"0": 10}}', "endingOffsets": '{"orders": {"0": 20}}'}
    found = frames.table(basic(), assign='{"orders": [0]}', readReport=few, **edges)
    reported = reput.read_report(few)
    assert (reported.queue_bytes, reported.log_bytes, reported.rows) == (200, sum(found["storeSize"].to_pylist()), 10)
    assert reported.bytes == reported.queue_bytes + reported.log_bytes
    assert len(frames.table(basic(), keys="k44", readReport=key))
    assert 0 < reput.read_report(key).bytes < reported.bytes * 100
    assert reput.read_report(tmp_path / "nothing").tasks == 0
    for other in ("[]", "[" * 100_000):
        (tmp_path / "few" / "other.json").write_text(other)
        with pytest.raises(ConfigError, match="folder of its own"):
            reput.read_report(few)


@pytest.mark.spark
def test_in_spark(spark: SparkContext, tmp_path: Path) -> None:
    """Spark's tasks report what they read, too; and an error is short, its last line the message."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    reader = session.read.format("rocketmq").option("readReport", str(tmp_path / "report"))
    assert reader.load(str(basic())).where("queueId = 0 and topic = 'orders' and queueOffset < 5").count() == 5
    reported = reput.read_report(tmp_path / "report")
    assert (reported.rows, reported.queue_bytes) == (5, 100)
    for options, load, last in (
        (
            {"topik": "x"},
            str(basic()),
            "reput.errors.ConfigError: option topik: not known when reading a store: did you",
        ),
        ({}, str(tmp_path / "no"), f"reput.errors.NotAStoreError: {tmp_path / 'no'}: no such folder. Give a store's"),
        (
            {"startingOffsets": '{"orders": {"0": 99999}}'},
            str(basic()),
            "reput.errors.DataLossError: startingOffsets: o",
        ),
    ):
        with pytest.raises(AnalysisException) as raised:
            session.read.format("rocketmq").options(**options).load(load).count()
        assert raised.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
        lines = [line for line in str(raised.value).splitlines() if not line.lstrip().startswith("SQLSTATE")]
        assert lines[-1].startswith(last)
        assert len(lines) <= 4
