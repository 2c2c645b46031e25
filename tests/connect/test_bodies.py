"""Bodies in frames and exports: as a consumer gets them, or as they are stored, and an error for each that is bad."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import reput
from reput.connect.scan import log_scan
from reput.errors import ConfigError
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.record import FLAG_COMPRESSED, FLAG_INNER_BATCH, FLAG_NEED_UNWRAP
from support import frames, golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

ZLIB, LZ4, UNKNOWN = (FLAG_COMPRESSED | kind for kind in (0x300, 0x100, 0x500))
COMPRESSION = 0x701
BATCH = FLAG_INNER_BATCH | FLAG_NEED_UNWRAP
WANTED = ["physicalOffset", "body", "bodyError", "sysFlag"]


def agree(table: pa.Table, raw: pa.Table) -> int:
    """Assert that each compressed body is what its producer compressed; return the number of these."""
    flags, stored = raw["sysFlag"].to_pylist(), raw["body"].to_pylist()
    for row, flag, body in zip(table.to_pylist(), flags, stored, strict=True):
        assert row["bodyError"] is None
        if flag & FLAG_COMPRESSED:
            said = dict(row["properties"])
            found = len(row["body"]), zlib.crc32(row["body"]) & 0x7FFFFFFF
            assert found == (int(said["plainSize"]), int(said["plainCrc"]))
            assert row["sysFlag"] == flag & ~COMPRESSION
        else:
            assert (row["body"], row["sysFlag"]) == (body, flag)
    return sum(flag & FLAG_COMPRESSED for flag in flags)


@pytest.mark.golden
@pytest.mark.parametrize("name", golden.STORES_55)
def test_bodies_are_those_of_the_java_client(name: str) -> None:
    """A scan gives every body of a broker's store as its producer made it; body=raw gives the stored bytes."""
    columns = ["body", "bodyError", "sysFlag", "properties"]
    decoded = reput.scan(golden.shared(name), columns=columns).read_all()
    assert agree(decoded, reput.scan(golden.shared(name), columns=["body", "sysFlag"], body="raw").read_all()) > 0


@pytest.mark.golden
@pytest.mark.parametrize("options", [{"scan": "queue", "topic": "orders"}, {"scan": "log"}], ids=repr)
def test_every_plan_decodes(options: dict[str, Any]) -> None:
    """A read by queues and one by the log give the same bodies, and the Kafka columns give them, too."""
    store = golden.shared("json")
    raw = frames.table(store, body="raw", **options)
    assert agree(frames.table(store, **options), raw) > 0
    kafka = frames.table(store, schema="kafka", **options)
    assert kafka["value"].to_pylist() == frames.table(store, **options)["body"].to_pylist()
    assert kafka.schema.names[-1] == "bodyError"


@pytest.mark.golden
@pytest.mark.spark
def test_spark_gets_decoded_bodies(spark: SparkContext) -> None:
    """`format("rocketmq")` decodes by default, and option body=raw leaves bodies as they are stored."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    reader = session.read.format("rocketmq").option("columns", "physicalOffset,body,bodyError,sysFlag,properties")
    decoded = reader.load(str(golden.shared("config-v2"))).toArrow().sort_by("physicalOffset")
    reader = session.read.format("rocketmq").option("body", "raw").option("columns", "physicalOffset,body,sysFlag")
    assert agree(decoded, reader.load(str(golden.shared("config-v2"))).toArrow().sort_by("physicalOffset")) > 0


@pytest.mark.golden
def test_an_export_has_decoded_bodies(tmp_path: Path) -> None:
    """An export has bodies as consumers get them; with body="raw" as they are stored, and each goes on as it is."""
    store, tables = golden.shared("json"), {}
    for body in ("decoded", "raw"):
        report = reput.export(store, tmp_path / body, spark=False, body=body)
        assert report.undecoded == 0
        assert reput.export(store, tmp_path / body, spark=False).messages == 0
        tables[body] = ds.dataset(tmp_path / body, format="parquet").to_table().sort_by("physicalOffset")
    assert agree(tables["decoded"], tables["raw"]) > 0
    with pytest.raises(ConfigError, match=r"has bodies raw, not decoded\. Leave body out, or give another folder"):
        reput.export(store, tmp_path / "raw", spark=False, body="decoded")


def bad_log() -> LogBuilder:
    """A log with a body for each thing that can be wrong, between good ones."""
    log = LogBuilder()
    log.message("orders", body=b"plain")
    log.message("orders", body=b"no stream at all", sys_flag=ZLIB)
    log.message("orders", body=zlib.compress(b"whole"), sys_flag=ZLIB)
    log.message("orders", body=zlib.compress(b"cut off" * 9)[:-3], sys_flag=ZLIB)
    log.message("orders", body=pa.compress(bytes(5000), codec="lz4", asbytes=True), sys_flag=LZ4)
    log.message("orders", body=b"anything", sys_flag=UNKNOWN)
    log.message("orders", body=b"last")
    return log


REASONS = (
    None,
    "zlib: the stream is damaged",
    None,
    "zlib: the stream is cut off",
    "lz4: expands to more than",
    "type 5",
    None,
)


@pytest.mark.parametrize("scan", ["log", "queue"])
def test_a_bad_body_costs_no_other_message(tmp_path: Path, scan: str) -> None:
    """A body that cannot be decoded is null with its log offset and the reason, and the read goes on."""
    log = bad_log()
    store = stores.with_log(tmp_path, log)
    if scan == "queue":
        stores.rebuild(store, None)
    rows = frames.table(store, scan=scan, columns=",".join(WANTED), maxDecodedBodySize=4999).to_pylist()
    for row, placed, reason in zip(rows, log.placed, REASONS, strict=True):
        assert row["physicalOffset"] == placed.offset
        if reason is None:
            assert row["bodyError"] is None
        else:
            assert row["body"] is None
            assert row["bodyError"].startswith(f"log offset {placed.offset}: ")
            assert reason in row["bodyError"]
    assert [row["body"] for row in rows if row["bodyError"] is None] == [b"plain", b"whole", b"last"]


def test_an_export_counts_bad_bodies(tmp_path: Path) -> None:
    """An export with bad bodies is whole, and its report says how many there are and how to get the stored bytes."""
    store = stores.with_log(tmp_path / "store", bad_log())
    report = reput.export(store, tmp_path / "out", spark=False, columns=["body"])
    assert (report.messages, report.undecoded) == (7, 3)
    assert any("3 bodies cannot be decoded" in note and "--body raw" in note for note in report.notes)


def test_a_stored_body_is_as_it_was(tmp_path: Path) -> None:
    """With body=raw nothing is decoded, sysFlag is whole, and there is no column bodyError."""
    log = bad_log()
    table = frames.table(stores.with_log(tmp_path, log), body="raw")
    assert table["body"].to_pylist() == [placed.record.body for placed in log.placed]
    assert table["sysFlag"].to_pylist() == [placed.record.sys_flag for placed in log.placed]
    assert "bodyError" not in table.schema.names


def test_bodies_that_expand_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    """Small records whose bodies are large do not become one large batch: memory is bounded by batch and body."""
    log, body = LogBuilder(), zlib.compress(bytes(3 << 20))
    for _ in range(40):
        log.message("orders", body=body, sys_flag=ZLIB)
    with reput.scan(stores.with_log(tmp_path, log), columns="body") as reader:
        sizes = [batch.nbytes for batch in reader]
    assert max(sizes) < log_scan.BATCH_BYTES + (4 << 20)
    assert sum(sizes) > 40 * (3 << 20)


def batch_of(*bodies: bytes) -> bytes:
    """Encode messages without properties as a client does, one after the other."""
    return encode_messages([InnerMessage(0, body, b"") for body in bodies])


def test_a_compressed_batch_is_taken_apart(tmp_path: Path) -> None:
    """A batch whose body is compressed becomes rows of plain messages, as a consumer gets it; with body=raw one row."""
    log, more = LogBuilder(), {"INNER_NUM": "2"}
    log.message("orders", body=zlib.compress(batch_of(b"one", b"two")), sys_flag=ZLIB | BATCH, more=more)
    log.message("orders", body=batch_of(b"three", b"four"), sys_flag=BATCH, more=more, queue_offset=2)
    log.message("orders", body=b"garbage", sys_flag=ZLIB | BATCH, more=more, queue_offset=4)
    store = stores.with_log(tmp_path, log)
    table = frames.table(store, columns="queueOffset,body,sysFlag,bodyError")
    assert table["body"].to_pylist() == [b"one", b"two", b"three", b"four", None]
    assert table["queueOffset"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["sysFlag"].to_pylist() == [BATCH] * 5
    assert table["bodyError"].to_pylist()[:4] == [None] * 4
    assert table["bodyError"].to_pylist()[4].startswith(f"log offset {log.placed[2].offset}: zlib: ")
    assert len(frames.table(store, body="raw")) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"body": "plain"}, "option body=plain: give decoded or raw"),
        ({"maxDecodedBodySize": "0"}, "maxDecodedBodySize=0: give a whole number from 1 to 1073741824"),
        ({"body": "raw", "columns": "bodyError"}, "'bodyError' is no column"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, str], said: str) -> None:
    """Options of bodies that mean nothing are refused with what they may be."""
    with pytest.raises(ConfigError, match=said):
        frames.plan(tmp_path, **options)
