"""Writing frames and streams to a store: what is written is read again, and a batch is appended exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import MapType, StringType, StructField, StructType

import reput
from reput.connect.sink import ledger as ledgers
from reput.connect.sink import sink
from reput.connect.sink.columns import ASSIGNED, TYPES, check_schema, message_columns
from reput.connect.sink.ledger import BEGUN, DONE, Ledger, read_ledger, write_ledger
from reput.connect.sink.sink import commit_batch
from reput.connect.sink.staging import Stager
from reput.connect.writer import RocketmqStreamWriter, RocketmqWriter, one_spelling, query_id
from reput.errors import ConfigError, DamagedStoreError, NotAStoreError, ReputError, StoreLockedError
from reput.files import fs
from reput.files.fs import owner_of
from reput.formats import paths
from reput.store.message_store import LocalStore
from support import frames, golden
from support.checked import assert_sound
from support.killed import Killed

if TYPE_CHECKING:
    from pyspark import SparkContext

NOW_MS = 1_700_000_000_000

REFUSED = [
    ({"topic": "string"}, None, "a column body"),
    ({"body": "string"}, None, "no column topic"),
    ({"body": "string", "topic": "string"}, "orders", "give one of them"),
    ({"body": "int", "topic": "string"}, None, "body is int"),
    ({"body": "string", "value": "binary"}, "orders", "mean the same"),
    ({"body": "string", "Body": "string"}, "orders", "body and Body mean the same"),
    ({"body": "string", "bodi": "string"}, "orders", "bodi: not a column"),
    ({"body": "string", "properties": "map<string,int>"}, "orders", "properties is map<string,int>"),
]


@pytest.mark.parametrize(("types", "topic", "text"), REFUSED, ids=lambda value: str(value)[:50])
def test_a_schema_that_does_not_fit(types: dict[str, str], topic: str | None, text: str) -> None:
    """A column that is missing, unknown or of another type is named before anything is staged."""
    with pytest.raises(ConfigError, match=text):
        check_schema(types, topic)


HEADER = pa.struct({"key": pa.string(), "value": pa.binary()})
NOT_TEXT = [
    ("key", pa.array([b"k", b"\xff\xfe"]), "column keys .or key.: a value is not UTF-8"),
    ("headers", pa.array([[("a", b"\xff")], None], pa.list_(HEADER)), "column headers: a value is not UTF-8"),
    ("tags", pa.array([b"a", b"\xff"], pa.binary()).view(pa.string()), "column tags: Invalid UTF8"),
    ("headers", pa.array([[("a", b"x"), (None, b"x")], []], pa.list_(HEADER)), "column headers: a key is null"),
]


@pytest.mark.parametrize(("name", "values", "text"), NOT_TEXT)
def test_bytes_that_are_no_text(name: str, values: pa.Array, text: str) -> None:
    """A key or property that cannot be one is refused by its column, and ends no worker."""
    with pytest.raises(ConfigError, match=text):
        message_columns(pa.record_batch({"body": ["x", "y"], name: values}), "orders", NOW_MS)


def test_headers_of_any_shape() -> None:
    """Rows without headers, with none of them and with null values, and a slice of a batch, become properties."""
    rows = [[("zero", b"0")], None, [], [("a", b"1"), ("b", None)], [("c", b"3")]]
    batch = pa.record_batch({"body": list("vwxyz"), "headers": pa.array(rows, pa.list_(HEADER))})
    found = message_columns(batch.slice(1), "orders", NOW_MS)["properties"].to_pylist()
    assert [dict(row or ()) for row in found] == [{}, {}, {"a": "1"}, {"c": "3"}]


def test_a_body_that_a_read_could_not_decode_is_refused_with_its_error() -> None:
    """A null body beside a bodyError names that error; without one the null itself is refused."""
    batch = pa.record_batch({"body": pa.array([None, b"x"], pa.binary()), "bodyError": ["offset 7: zlib: cut", None]})
    with pytest.raises(ConfigError, match=r"offset 7: zlib: cut\. Read with body=raw"):
        message_columns(batch, "orders", NOW_MS)
    with pytest.raises(ConfigError, match="column body holds nulls"):
        message_columns(batch.drop_columns(["bodyError"]), "orders", NOW_MS)


def test_every_column_of_a_read_frame_may_be_written() -> None:
    """Each column of a frame that was read can be written: the store takes its value, or gives a new one."""
    for options in ({}, {"schema": "kafka", "includeHeaders": "true"}):
        columns = frames.plan(golden.shared("basic"), **options).job.columns
        assert {column.name.lower() for column in columns} <= set(TYPES) | ASSIGNED
        check_schema({column.name: column.type for column in columns}, None)


@pytest.mark.golden
@pytest.mark.parametrize("options", [{}, {"schema": "kafka", "includeHeaders": "true"}], ids=str)
def test_a_round_trip(tmp_path: Path, options: dict[str, str]) -> None:
    """Messages of one store, written to another, have the same topics, queues, bodies and properties there."""
    rows = frames.table(golden.shared("basic"), **options)
    # A delay is the broker's business: a batch cannot carry it.
    rows = rows.filter(pc.not_equal(rows["topic"], "SCHEDULE_TOPIC_XXXX"))
    with new_store(tmp_path, golden.LOG_FILE_SIZE) as store:
        folder = store.layout.own("sinks") / "one"
        stager = Stager(folder / "staged", store.layout, store.config)
        for batch in rows.to_batches():
            stager.add(message_columns(batch, None, NOW_MS))
        stager.flush()
        assert ledgers.append_staged(store, folder / "staged", stager.files) == len(rows)
    copied = frames.table(tmp_path, **options)
    kept = ("topic", "queueId", "flag", "body", "keys", "tags", "uniqKey", "bornTimestamp", "key", "value", "partition")
    for name in kept:
        if name in rows.schema.names:
            assert copied[name].to_pylist() == rows[name].to_pylist(), name
    maps = "properties" if not options else "headers"
    before, after = (sorted_maps(table[maps].to_pylist()) for table in (rows, copied))
    assert before == after
    assert_sound(tmp_path)


def sorted_maps(rows: list[Any]) -> list[Any]:
    """Each message's properties in one order."""
    return [sorted((tuple(pair.values()) if isinstance(pair, dict) else pair) for pair in row) for row in rows]


def new_store(folder: Path, log_file_size: int = 1 << 16) -> reput.MessageStore:
    """A store without a message, with small files."""
    config = reput.StoreConfig(mapped_file_size_commit_log=log_file_size)
    return reput.MessageStore.open(folder, config, create=True)


def staged(store: LocalStore, folder: Path, first: int, count: int) -> list[str]:
    """Stage messages of 1 KiB."""
    stager = Stager(folder / "staged", store.layout, store.config)
    for begin in range(first, first + count, 50):
        numbers = range(begin, min(begin + 50, first + count))
        batch = pa.record_batch(
            {
                "body": [f"{number:05d}".encode() * 200 for number in numbers],
                "keys": [f"k{number} also" for number in numbers],
                "properties": pa.array([[("a", str(number))] for number in numbers], pa.map_(pa.string(), pa.string())),
            }
        )
        stager.add(message_columns(batch, "orders", NOW_MS))
        stager.flush()
    return stager.files


def numbers_in(store: Path) -> list[int]:
    """The numbers of the messages, in log order."""
    return [int(body[:5]) for body in frames.table(store)["body"].to_pylist()]


@pytest.mark.parametrize("survive", [0, 1, 3, 7, 99])
def test_a_killed_commit_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survive: int) -> None:
    """Killed after any part of the append, the batch is there once when it comes again, in another order even."""
    monkeypatch.setattr(ledgers, "_PIECE_BYTES", 1 << 13)
    real = LocalStore.put_messages
    left = [survive]

    def put(store: LocalStore, messages: Any, queue_id: Any = 0) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(store, messages, queue_id)

    with new_store(tmp_path) as store:
        folder = store.layout.own("sinks") / "one"
        commit_batch(store, folder, Ledger("query", 0, BEGUN, staged(store, folder, 0, 20)))
        names = staged(store, folder, 20, 100)
        monkeypatch.setattr(LocalStore, "put_messages", put)
        try:
            commit_batch(store, folder, Ledger("query", 1, BEGUN, names))
        except KeyboardInterrupt:
            assert survive < 99
        monkeypatch.setattr(LocalStore, "put_messages", real)
    with new_store(tmp_path) as store:
        # Somebody else had the store in between, with a message of the same content.
        store.put_messages(message_columns(pa.record_batch({"body": [b"99999"]}), "orders", NOW_MS + 5))
    with new_store(tmp_path) as store:
        again = Ledger("query", 1, BEGUN, list(reversed(staged(store, folder, 20, 100))))
        for _ in range(2):
            commit_batch(store, folder, again)
            assert read_ledger(folder) == Ledger("query", 1, "done")
        commit_batch(store, folder, Ledger("query", 2, BEGUN, staged(store, folder, 120, 10)))
    assert sorted(numbers_in(tmp_path)) == [*range(130), 99999]
    assert [number for number in numbers_in(tmp_path) if number < 99999] == list(range(130))


KILLED = """
import os, sys
from pathlib import Path
from reput.connect.sink import ledger as ledgers
from reput.connect.sink import sink
from reput.connect.sink.sink import commit_batch
from reput.store.message_store import LocalStore
from connect.test_sink import new_store, staged

left, real = [int(sys.argv[2])], LocalStore.put_messages
ledgers._PIECE_BYTES = 1 << 13

def put(store, messages, queue_id=0):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return real(store, messages, queue_id)

LocalStore.put_messages = put
store = new_store(Path(sys.argv[1]))
folder = store.layout.own("sinks") / "one"
commit_batch(store, folder, ledgers.Ledger("query", 0, "begun", staged(store, folder, 0, 100)))
os._exit(9)
"""


@pytest.mark.parametrize("survive", [0, 5, 99])
def test_a_killed_process(tmp_path: Path, survive: int) -> None:
    """The same with a process that ends without a word, its store open: recovery keeps a prefix, no row is doubled."""
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent / "src"), str(tests)])}
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(survive)]
    assert subprocess.run(command, env=environment, check=False, timeout=120).returncode == 9
    with new_store(tmp_path) as store:
        folder = store.layout.own("sinks") / "one"
        commit_batch(store, folder, Ledger("query", 0, BEGUN, staged(store, folder, 0, 100)))
        commit_batch(store, folder, Ledger("query", 1, BEGUN, staged(store, folder, 100, 5)))
    assert numbers_in(tmp_path) == list(range(105))


@pytest.mark.parametrize("lost", [b"KEYS\x01k1 also", b"k1 also", b"1 a"])
def test_a_message_without_its_properties_is_not_appended_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: bytes
) -> None:
    """A power cut took a part of a message's keys, and the batch that came again stored the message twice."""
    with new_store(tmp_path) as store:
        folder = store.layout.own("sinks") / "one"
        names = staged(store, folder, 0, 4)
        write_ledger(folder, Ledger("query", 0, BEGUN, names, store.view.confirmed()), owner_of(tmp_path))
        (batch,) = ledgers.staged_messages(folder / "staged", names)
        store.put_messages(batch.slice(0, 3))
    with (tmp_path / paths.COMMIT_LOG / paths.offset_name(0)).open("r+b") as log:
        log.seek(log.read().index(b"KEYS\x01k1 also") + b"KEYS\x01k1 also".index(lost))
        log.write(bytes(len(lost)))
    with new_store(tmp_path) as store:
        assert commit_batch(store, folder, Ledger("query", 0, BEGUN, staged(store, folder, 0, 4))) == 1
    assert numbers_in(tmp_path) == [0, 1, 2, 3]
    assert "has taken properties of 1 messages" in caplog.text


def test_a_message_with_other_properties_is_another_one(tmp_path: Path) -> None:
    """A message of somebody else with the same body and other keys is no part of the batch."""
    with new_store(tmp_path) as store:
        folder = store.layout.own("sinks") / "one"
        names = staged(store, folder, 0, 2)
        write_ledger(folder, Ledger("query", 0, BEGUN, names, store.view.confirmed()), owner_of(tmp_path))
        (batch,) = ledgers.staged_messages(folder / "staged", names)
        other = batch.set_column(batch.schema.get_field_index("keys"), "keys", pa.array([["k9", "also"]] * 2))
        assert store.put_messages(other.slice(0, 1)).status.is_stored
        assert commit_batch(store, folder, Ledger("query", 0, BEGUN, names)) == 2
    assert numbers_in(tmp_path) == [0, 0, 1]


def test_a_checkpoint_that_was_set_back(tmp_path: Path) -> None:
    """A batch older than the last one is refused; a new query at the same place begins anew."""
    with new_store(tmp_path) as store:
        folder = store.layout.own("sinks") / "one"
        for batch in (0, 1):
            commit_batch(store, folder, Ledger("query", batch, BEGUN, staged(store, folder, batch, 1)))
        with pytest.raises(ConfigError, match="batch 1 is in the store, and batch 0 comes"):
            commit_batch(store, folder, Ledger("query", 0, BEGUN, staged(store, folder, 5, 1)))
        commit_batch(store, folder, Ledger("another", 0, BEGUN, staged(store, folder, 2, 1)))
    assert numbers_in(tmp_path) == [0, 1, 2]


def test_a_checkpoint_by_another_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that comes again is known however the checkpoint's folder is written."""
    new_store(tmp_path / "store").close()
    (tmp_path / "cp").mkdir()
    (tmp_path / "cp" / "metadata").write_text('{"id": "1"}')
    monkeypatch.chdir(tmp_path)
    schema = StructType([StructField("body", StringType())])
    spellings = (f"{tmp_path}/cp", f"{tmp_path}//cp/", f"file:{tmp_path}/cp", f"file://{tmp_path}/cp/", "cp", "file:cp")
    for spelling in spellings:
        options = {"path": str(tmp_path / "store"), "topic": "orders", "checkpointLocation": spelling}
        one = RocketmqStreamWriter(options, schema)
        one.commit([one.write(iter([pa.record_batch({"body": ["00007"]})]))], 0)
    assert numbers_in(tmp_path / "store") == [7]
    assert one_spelling("hdfs://host/cp") == "hdfs://host/cp"


def test_a_remote_checkpoint_that_was_begun_anew_lost_its_first_batches(tmp_path: Path) -> None:
    """The query's id is read by pyarrow; where it cannot be read, no batch is taken for a repeat of another query's."""
    (tmp_path / "cp").mkdir()
    (tmp_path / "cp" / "metadata").write_text('{"id":"the query"}')
    assert query_id(f"file://{tmp_path}/cp/") == "the query"
    for checkpoint in ("no-such-scheme://host/cp", f"file://{tmp_path}/none"):
        with pytest.raises(
            ConfigError, match=f"checkpointLocation {checkpoint}: its file metadata.* cannot be read here"
        ):
            query_id(checkpoint)


def test_a_ledger_that_is_none(tmp_path: Path) -> None:
    """Bytes that are no ledger are an error, and names in one do not lead out of the folder."""
    other = b'{"state": "begun", "batch": "x", "files": [], "offset": 0, "query": ""}'
    for data in (b"", b"[]", b"{}", other, b"[" * 100_000):
        (tmp_path / "ledger").write_bytes(data)
        with pytest.raises(DamagedStoreError, match="not the ledger"):
            read_ledger(tmp_path)
    with pytest.raises(DamagedStoreError, match="staged messages are gone"):
        list(ledgers.staged_messages(tmp_path, ["../ledger"]))


def test_staged_messages_that_the_disk_has_changed_are_not_appended(tmp_path: Path) -> None:
    """A staged file that is cut anywhere, or has another byte, is refused by its name, and nothing of it is stored."""
    with new_store(tmp_path / "store") as store:
        folder = store.layout.own("sinks") / "one"
        (name,) = staged(store, folder, 0, 20)
        path = folder / "staged" / name
        data = path.read_bytes()
        changed = bytearray(data)
        changed[data.index(b"00007")] ^= 1
        for found in (bytes(changed), *(data[:size] for size in range(0, len(data), 97))):
            path.write_bytes(found)
            with pytest.raises(DamagedStoreError, match=f"{name}: staged messages are not what was staged"):
                list(ledgers.staged_messages(folder / "staged", [name]))
        # Somebody who changes the name, too, leaves no Arrow stream.
        short = path.with_name(f"x-{zlib.crc32(data[:-100]):08x}.arrow")
        short.write_bytes(data[:-100])
        with pytest.raises(DamagedStoreError, match="no staged messages"):
            list(ledgers.staged_messages(folder / "staged", [short.name]))
        with pytest.raises(DamagedStoreError):
            commit_batch(store, folder, Ledger("query", 0, BEGUN, [name]))
    assert numbers_in(tmp_path / "store") == []


@pytest.mark.spark
def test_frames_and_streams_through_spark(spark: SparkContext, tmp_path: Path) -> None:
    """A frame is appended; a stream from one store to another brings each message once over two runs."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        reput.MessageStore.open(folder, create=True).close()
    rows = [(f"{number:05d}", f"k{number}", number % 3) for number in range(200)]
    frame = session.createDataFrame(rows, "body string, keys string, queueId int")
    frame.write.format("rocketmq").option("topic", "orders").mode("append").save(str(source))
    assert sorted(numbers_in(source)) == list(range(200))

    def copy() -> None:
        stream = session.readStream.format("rocketmq").option("startingOffsets", "earliest").load(str(source))
        writer = stream.writeStream.format("rocketmq").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(target)).trigger(availableNow=True).start().awaitTermination()

    copy()
    frame.limit(10).write.format("rocketmq").option("topic", "more").mode("append").save(str(source))
    copy()
    copied, expected = frames.table(target), frames.table(source)
    for name in ("topic", "queueId", "body", "keys", "bornTimestamp"):
        assert copied[name].to_pylist() == expected[name].to_pylist()

    with reput.MessageStore.open(target, create=True), pytest.raises(Exception, match=StoreLockedError.__name__):
        frame.write.format("rocketmq").option("topic", "x").mode("append").save(str(target))
    with pytest.raises(Exception, match=NotAStoreError.__name__):
        frame.write.format("rocketmq").option("topic", "x").mode("append").save(str(tmp_path / "none"))
    with pytest.raises(Exception, match="appended to"):
        frame.write.format("rocketmq").option("topic", "x").mode("overwrite").save(str(target))


def writer(store: Path, **options: str) -> RocketmqWriter:
    """A writer of a batch of texts."""
    schema = StructType([StructField("body", StringType())])
    return RocketmqWriter({"path": str(store), "topic": "orders", **options}, schema)


def written(store: Path, first: int, count: int, **options: str) -> None:
    """One batch write, as Spark's tasks and driver do it."""
    one = writer(store, **options)
    bodies = pa.record_batch({"body": [f"{number:05d}" * 200 for number in range(first, first + count)]})
    one.commit([one.write(iter([bodies]))])


def kill_after(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no more than this number of puts happen."""
    real, left = LocalStore.put_messages, [pieces]

    def put(store: LocalStore, messages: Any, queue_id: Any = 0) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(store, messages, queue_id)

    monkeypatch.setattr(LocalStore, "put_messages", put)


@pytest.mark.parametrize("survive", [0, 2])
def test_a_named_write_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survive: int) -> None:
    """A batch write with a writeId is finished by its next run, and a further run appends nothing."""
    new_store(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_PIECE_BYTES", 1 << 13)
        kill_after(survive, patch)
        with pytest.raises(Killed):
            written(tmp_path, 0, 100, writeId="day one")
    assert len(numbers_in(tmp_path)) < 100
    for _ in range(2):
        written(tmp_path, 0, 100, writeId="day one")
        assert numbers_in(tmp_path) == list(range(100))
    with pytest.raises(ConfigError, match="writeId"):
        RocketmqStreamWriter({"path": str(tmp_path), "checkpointLocation": "x", "writeId": "a"}, StructType([]))
    written(tmp_path, 100, 5, writeId="day two")
    assert numbers_in(tmp_path) == list(range(105))
    assert_sound(tmp_path)


def test_a_damaged_ledger_of_another_write_stopped_every_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names it, and the write goes on."""
    new_store(tmp_path).close()
    other = tmp_path / "reput" / "sinks" / "batch-of-old"
    other.mkdir(parents=True)
    (other / "ledger").write_bytes(b"")
    written(tmp_path, 0, 5)
    assert numbers_in(tmp_path) == list(range(5))
    assert f"what another write has left is not looked after: {other}" in caplog.text


def test_messages_of_very_different_sizes_stopped_a_write_for_good(tmp_path: Path) -> None:
    """A piece for one log file was as many messages as fit on average: a few large ones in a row did not."""
    store = new_store(tmp_path, 1 << 20)
    stager = Stager(tmp_path / "staged", store.layout, store.config)
    bodies = [b"small"] * 1000 + [bytes(100 << 10)] * 20
    stager.add(message_columns(pa.record_batch({"body": pa.array(bodies, pa.binary())}), "orders", NOW_MS))
    stager.flush()
    with store:
        assert ledgers.append_staged(store, tmp_path / "staged", stager.files) == len(bodies)
        assert store.max_offset("orders", 0) == len(bodies)


def test_a_message_larger_than_a_log_file_stopped_a_write_for_good(tmp_path: Path) -> None:
    """It was staged, and each run appended the messages before it; its task refuses it, and stages nothing."""
    with new_store(tmp_path, 1 << 20) as store:
        store.put_message(reput.Message("others", b"0"))
    for bodies in ([b"small"] * 5 + [bytes(2 << 20)], [bytes(1 << 20)]):
        with pytest.raises(ConfigError, match=r"a message takes \d+ bytes: a file of the log takes at most 1048568"):
            writer(tmp_path).write(iter([pa.record_batch({"body": pa.array(bodies, pa.binary())})]))
    assert numbers_in(tmp_path) == [0]
    # Together they are larger than a file, and each of them fits.
    staging, bodies = writer(tmp_path), [bytes(300 << 10)] * 9
    staging.commit([staging.write(iter([pa.record_batch({"body": pa.array(bodies, pa.binary())})]))])
    with reput.MessageStore.open(tmp_path, read_only=True) as store:
        assert store.max_offset("orders", 0) == len(bodies)


def test_what_a_killed_write_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a writeId the first messages stay; the next write names the writeId that appends the rest, once."""
    new_store(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_PIECE_BYTES", 1 << 13)
        kill_after(3, patch)
        with pytest.raises(Killed):
            written(tmp_path, 0, 100)
    left = numbers_in(tmp_path)
    assert left == list(range(len(left)))
    assert 0 < len(left) < 100
    [unfinished] = [path.name for path in (tmp_path / "reput" / "sinks").iterdir()]
    staging = writer(tmp_path)
    staging.write(iter([pa.record_batch({"body": ["00500"]})]))
    written(tmp_path, 200, 3)
    assert "a write broke off while it appended" in caplog.text
    assert f"writeId', '{unfinished}'" in caplog.text
    assert numbers_in(tmp_path) == [*left, 200, 201, 202]
    # What another write stages meanwhile stays.
    assert {path.name for path in (tmp_path / "reput" / "sinks").iterdir()} == {unfinished, staging.target.sink}
    staging.abort([])
    for _ in range(2):
        written(tmp_path, 0, 100, writeId=unfinished)
        assert sorted(numbers_in(tmp_path)) == [*range(100), 200, 201, 202]
        written(tmp_path, 300, 0)
    assert_sound(tmp_path)


def test_a_write_that_nobody_left_unfinished(tmp_path: Path) -> None:
    """The writeId of an unfinished write that is not there is refused: the job would store all messages again."""
    new_store(tmp_path).close()
    with pytest.raises(ConfigError, match="there is no unfinished write of this name"):
        writer(tmp_path, writeId="batch-" + "0" * 32)


def test_delayed_messages_are_refused(tmp_path: Path) -> None:
    """Nobody would deliver a delayed message: the property is refused by name, before anything is in the log."""
    new_store(tmp_path).close()
    schema = StructType(
        [StructField("body", StringType()), StructField("properties", MapType(StringType(), StringType()))]
    )
    one = RocketmqWriter({"path": str(tmp_path), "topic": "orders"}, schema)
    delayed = pa.array([[("DELAY", "3")]], pa.map_(pa.string(), pa.string()))
    with pytest.raises(ReputError, match="DELAY"):
        one.write(iter([pa.record_batch({"body": ["x"], "properties": delayed})]))
    assert numbers_in(tmp_path) == []


def test_a_damaged_staged_file_left_half_a_write_in_the_log(tmp_path: Path) -> None:
    """All staged files are looked at before the first message is appended."""
    with new_store(tmp_path / "store") as store:
        folder = store.layout.own("sinks") / "one"
        names = [*staged(store, folder, 0, 20), *staged(store, folder, 20, 20)]
        (folder / "staged" / names[1]).write_bytes(b"")
        with pytest.raises(DamagedStoreError, match="staged messages are not what was staged"):
            commit_batch(store, folder, Ledger("query", 0, BEGUN, names))
        assert read_ledger(folder) is None
    assert numbers_in(tmp_path / "store") == []


@pytest.mark.parametrize("state", [BEGUN, DONE])
def test_a_batch_that_comes_again_rests_on_a_durable_ledger(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call before may have failed to sync the ledger: it is durable before a message of it, or an answer."""
    order = []
    with new_store(tmp_path / "store") as store:
        folder = store.layout.own("sinks") / "stream"
        names = staged(store, folder, 0, 3)
        begun = Ledger("query", 0, BEGUN, names)
        write_ledger(folder, begun if state == BEGUN else Ledger("query", 0, DONE), owner_of(folder))
        append, sync = sink.append_staged, fs.sync_path
        monkeypatch.setattr(sink, "append_staged", lambda *given: (order.append("append"), append(*given))[1])
        monkeypatch.setattr(fs, "sync_path", lambda path: (order.append(Path(path).name), sync(path))[1])
        assert commit_batch(store, folder, begun) == (3 if state == BEGUN else 0)
    assert order[0] == "stream"
