"""Exports hold what the store holds, go on where they were, and say when they cannot."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import reput
from reput.cli.main import run
from reput.connect import export as exports
from reput.connect.export_range import export_range, own_folder
from reput.connect.scan import log_scan as scan
from reput.errors import ConfigError, DamagedStoreError, DataLossError
from reput.files import fs
from reput.formats import paths
from support import frames, golden, stores
from support.opened import CONFIG
from support.records import LogBuilder

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOP: dict[str, Any] = {"spark": False}


def exported(folder: Path) -> list[dict[str, Any]]:
    """All rows of an export, in log order."""
    table = ds.dataset(folder, format="parquet", partitioning="hive", exclude_invalid_files=False).to_table()
    return table.sort_by("physicalOffset").to_pylist()


@pytest.mark.golden
def test_an_export_is_the_store(tmp_path: Path) -> None:
    """Every message is there once, under its topic and day, with all its columns."""
    report = reput.export(golden.shared("basic"), tmp_path / "out", **LOOP)
    rows, expected = exported(tmp_path / "out"), frames.table(golden.shared("basic")).to_pylist()
    assert report.messages == len(rows) == len(expected)
    for row, message in zip(rows, expected, strict=True):
        assert row.pop("day") == message["storeTimestamp"].date().isoformat()
        assert row == message


@pytest.mark.golden
def test_each_file_has_the_order_of_the_log(tmp_path: Path) -> None:
    """Messages of a topic and a day are in a file in the order of the log."""
    reput.export(golden.shared("basic"), tmp_path / "out", **LOOP)
    files = [pq.read_table(path)["physicalOffset"].to_pylist() for path in (tmp_path / "out").rglob("*.parquet")]
    assert max(map(len, files)) > 1
    assert all(offsets == sorted(offsets) for offsets in files)


@pytest.mark.golden
def test_an_export_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle it goes on with the ranges that are missing; done ranges are not written again."""
    monkeypatch.setattr(exports, "_RANGE_BYTES", 200_000)
    store, out = golden.shared("basic"), tmp_path / "out"
    real, left = export_range, [4]

    def stopping(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*arguments)

    monkeypatch.setattr(exports, "export_range", stopping)
    with pytest.raises(KeyboardInterrupt):
        reput.export(store, out, **LOOP)
    monkeypatch.setattr(exports, "export_range", real)
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    report = reput.export(store, out, **LOOP)
    assert report.ranges_before == 4
    assert len(exported(out)) == report.messages + report.messages_before == len(frames.table(store))
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert reput.export(store, out, **LOOP).ranges == 0


@pytest.mark.golden
@pytest.mark.parametrize(("function", "at"), [("write_whole", 1), ("write_whole", 30), ("make_dirs", 9)])
def test_a_full_disk_for_an_export(
    function: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk what is done stays, the error says how much that is, and the next run does the rest."""
    monkeypatch.setattr(exports, "_RANGE_BYTES", 200_000)
    store, out = golden.shared("basic"), tmp_path / "out"
    real, calls = getattr(fs, function), 0

    def full(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= at:
            with fs.errors_named(arguments[0], "write"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(fs, function, full)
        assert run(["export", str(store), "--folder", str(out), "--no-spark", "--json"]) == 2
    captured = capsys.readouterr()
    reported = json.loads(captured.out)
    done, ranges = reported["ranges_done"], reported["ranges"]
    assert done < ranges
    assert f"{done} of {ranges} ranges of the log are exported and stay in {out}: run the export again" in captured.err
    assert "Make room on this file system" in captured.err
    report = reput.export(store, out, **LOOP)
    assert report.ranges_before == done
    assert report.ranges + done == ranges if at > 1 else report.ranges > 1
    assert len(exported(out)) == report.messages + report.messages_before == len(frames.table(store))


def grown(folder: Path, counts: tuple[int, ...]) -> tuple[LogBuilder, list[Path]]:
    """Stores with more and more messages of one log."""
    log, found = LogBuilder(file_size=1 << 14), []
    for number, count in enumerate(counts):
        for _ in range(count):
            log.message("orders", body=b"x" * 200)
        found.append(stores.with_log(folder / str(number), log))
    return log, found


def test_what_is_new_is_added(tmp_path: Path) -> None:
    """The next run exports what the log has got since, and no message twice."""
    _, (first, second) = grown(tmp_path, (90, 77))
    out = tmp_path / "out"
    assert reput.export(first, out, **LOOP).messages == 90
    report = reput.export(second, out, **LOOP)
    assert (report.messages, report.messages_before) == (77, 90)
    assert len({row["physicalOffset"] for row in exported(out)}) == len(exported(out)) == 167


def test_what_does_not_fit_together(tmp_path: Path) -> None:
    """The root, another store, other columns, and files that went before they were exported are refused."""
    _, (first, second) = grown(tmp_path, (90, 200))
    with pytest.raises(ConfigError, match="give a folder"):
        reput.export(first, "/", **LOOP)
    out = tmp_path / "out"
    reput.export(first, out, **LOOP)
    with pytest.raises(ConfigError, match="the same, or another folder"):
        reput.export(first, out, columns=["body"], **LOOP)
    log = LogBuilder(file_size=1 << 14)
    log.message("others")
    with pytest.raises(ConfigError, match="another store"):
        reput.export(stores.with_log(tmp_path / "third", log), out, **LOOP)
    for path in sorted((second / paths.COMMIT_LOG).iterdir())[:3]:
        path.unlink()
    with pytest.raises(DataLossError, match="were deleted"):
        reput.export(second, out, **LOOP)


def test_files_that_a_killed_run_left_had_messages_twice(tmp_path: Path) -> None:
    """A range without a marker is exported anew: no file of it stays, also none that this run does not make."""
    log = LogBuilder()
    for _ in range(50):
        log.message("t")
    store, out = stores.with_log(tmp_path, log), tmp_path / "out"
    reput.export(store, out, **LOOP)
    (file,) = out.rglob("*.parquet")
    shutil.copy(file, file.with_name(f"{file.stem}-1.parquet"))
    stranger = file.with_name("notes.parquet")
    shutil.copy(file, stranger)
    (own_folder(out) / f"{0:020d}.json").unlink()
    reput.export(store, out, **LOOP)
    assert sorted(out.rglob("*.parquet")) == [file, stranger]
    stranger.unlink()
    assert len(exported(out)) == 50


def test_a_plan_or_a_marker_that_is_none(tmp_path: Path) -> None:
    """A plan that cannot be read is refused by its name; a range whose marker cannot be is exported again."""
    _, (store,) = grown(tmp_path, (90,))
    out = tmp_path / "out"
    first = reput.export(store, out, **LOOP)
    begin = min(path.name for path in own_folder(out).iterdir())
    for data in ("", "[]", "{}", '{"begin": 0, "end": 1, "messages": 1, "bytes": 1, "files": 3}', "[" * 100_000):
        (own_folder(out) / begin).write_text(data)
        again = reput.export(store, out, **LOOP)
        assert (again.ranges, again.messages + again.messages_before) == (1, first.messages) == (1, len(exported(out)))
    for data in ("", "[]", "{}", '{"columns": [], "topics": [], "mark": [1], "ranges": []}', "[" * 100_000):
        (own_folder(out) / "plan.json").write_text(data)
        with pytest.raises(ConfigError, match=r"plan\.json: this is not the plan of an export"):
            reput.export(store, out, **LOOP)


def pieces(folder: Path, table: pa.Table) -> set[tuple[Any, ...]]:
    """An Arrow table's rows as topic, day and log offset, whatever types a reader gives folders' names."""
    assert len(table)
    return {tuple(map(str, row.values())) for row in table.select(["topic", "day", "physicalOffset"]).to_pylist()}


@pytest.mark.golden
def test_readers_take_the_bare_folder(tmp_path: Path) -> None:
    """Polars, DuckDB, pandas and pyarrow read an export's folder: nothing but Parquet is in it."""
    out = tmp_path / "messages"
    reput.export(golden.shared("basic"), out, **LOOP)
    assert {path.suffix for path in out.rglob("*") if path.is_file()} == {".parquet"}
    found = {
        "polars scan": pl.scan_parquet(out, hive_partitioning=True).collect().to_arrow(),
        "polars read": pl.read_parquet(out, hive_partitioning=True).to_arrow(),
        "duckdb": duckdb.sql(f"FROM read_parquet('{out}/**/*.parquet', hive_partitioning = true)").to_arrow_table(),
        "duckdb all": duckdb.sql(f"FROM read_parquet('{out}/**', hive_partitioning = true)").to_arrow_table(),
        "pandas": pa.Table.from_pandas(pd.read_parquet(out)),
        "pyarrow": ds.dataset(out, partitioning="hive").to_table(),
    }
    expected = {
        (row["topic"], row["storeTimestamp"].date().isoformat(), str(row["physicalOffset"]))
        for row in frames.table(golden.shared("basic")).to_pylist()
    }
    for reader, table in found.items():
        assert pieces(out, table) == expected, reader


@pytest.mark.golden
def test_the_examples_that_read_an_export(tmp_path: Path) -> None:
    """The examples for pandas, Polars and DuckDB in docs/tasks/export.md run on an export, and find what is in it."""
    out = tmp_path / "messages"
    messages = reput.export(golden.shared("basic"), out, **LOOP).messages
    page = Path(__file__).parents[2] / "docs" / "tasks" / "export.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code.replace("/lake/messages", str(out)), str(page), "exec"), found)
    assert len(found["orders"]) == golden.facts("basic").entries("orders")
    assert set(found["orders"]["topic"]) == {"orders"}
    sizes = found["bytes_a_day"].collect()
    assert sizes["storeSize"].sum() == sum(row["storeSize"] for row in exported(out))
    assert dict(found["newest"].fetchall()).keys() == {row["topic"] for row in exported(out)} == set(sizes["topic"])
    assert messages == len(exported(out))


def test_an_export_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Plan and markers that lie within the folder are moved beside it; in both places they are refused."""
    _, (first, second) = grown(tmp_path, (90, 77))
    out = tmp_path / "out"
    reput.export(first, out, **LOOP)
    own, before = own_folder(out), out / "_reput"
    assert own == tmp_path / "_out.reput"
    own.rename(before)
    report = reput.export(second, out, **LOOP)
    assert (report.messages, report.messages_before, len(exported(out))) == (77, 90, 167)
    assert not before.exists()
    stores.copy(own, before)
    with pytest.raises(ConfigError, match="an earlier version of reput has exported here"):
        reput.export(second, out, **LOOP)


def test_an_export_without_its_plan_is_refused(tmp_path: Path) -> None:
    """An export that was moved without its plan is not exported into once more; with it, it goes on."""
    _, (store,) = grown(tmp_path, (90,))
    out, moved = tmp_path / "out", tmp_path / "moved"
    reput.export(store, out, **LOOP)
    out.rename(moved)
    with pytest.raises(ConfigError, match="has topics of an export, whose plan is not there"):
        reput.export(store, moved, **LOOP)
    own_folder(out).rename(own_folder(moved))
    report = reput.export(store, moved, **LOOP)
    assert (report.messages, report.messages_before) == (0, 90)


def test_an_export_whose_folder_is_gone_had_no_messages(tmp_path: Path) -> None:
    """The plan of an export whose folder was removed is refused: its messages were taken for exported."""
    _, (store,) = grown(tmp_path, (90,))
    out = tmp_path / "out"
    reput.export(store, out, **LOOP)
    shutil.rmtree(out)
    with pytest.raises(ConfigError, match=r"the folder is gone.*or remove .*_out\.reput, and all"):
        reput.export(store, out, **LOOP)
    shutil.rmtree(own_folder(out))
    assert reput.export(store, out, **LOOP).messages == 90


def test_files_of_an_export_that_were_removed_are_counted(tmp_path: Path) -> None:
    """Files that somebody has taken away are not written again, and the report says so."""
    _, (first, second) = grown(tmp_path, (90, 77))
    out = tmp_path / "out"
    report = reput.export(first, out, **LOOP)
    for path in out.rglob("*.parquet"):
        path.unlink()
    after = reput.export(second, out, **LOOP)
    assert (after.messages, after.messages_before) == (77, 90)
    assert [note for note in after.notes if note.startswith(f"{report.files} files of earlier runs are no longer in")]


@pytest.mark.parametrize("name", ["notes.txt", "orders"])
def test_a_folder_with_files_of_others_is_refused(name: str, tmp_path: Path) -> None:
    """Readers take each file of an export for data, so none of others may be there; hidden ones are no data."""
    _, (store,) = grown(tmp_path, (90,))
    out = tmp_path / "out"
    out.mkdir()
    (out / ".keep").touch()
    (out / name).touch()
    with pytest.raises(ConfigError, match=f"has '{name}', which no export has made. Give a new folder"):
        reput.export(store, out, **LOOP)
    (out / name).unlink()
    assert reput.export(store, out, **LOOP).messages == 90
    (out / name).touch()
    assert [note for note in reput.export(store, out, **LOOP).notes if f"has '{name}', which no export" in note]


def test_a_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of an object store is refused, and not made a folder of that name; file: is understood."""
    monkeypatch.chdir(tmp_path)
    _, (store,) = grown(tmp_path, (20,))
    with pytest.raises(ConfigError, match="folder=s3://bucket/messages: give a folder"):
        reput.export(store, "s3://bucket/messages", **LOOP)
    assert not (tmp_path / "s3:").exists()
    assert reput.export(store, f"file://{tmp_path}/out", **LOOP).folder == str(tmp_path / "out")


@pytest.mark.golden
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--folder", "s3://bucket/x"], "folder=s3://bucket/x: give a folder"),
        (["--folder", "/"], "folder=/: give a folder below it"),
        (["--folder", "FILE"], ": a file. Give a folder"),
        (["--folder", "out", "--columns", "body,storetime"], "option columns: 'storetime' is no column. Near it: stor"),
        (["--folder", "out", "--columns", "xyz"], "'xyz' is no column. There are: topic, "),
    ],
)
def test_what_is_refused_is_refused_before_spark_starts(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder or a column that cannot be exported ends the command at once, and makes nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reput.api.engine_for", lambda *_: pytest.fail("Spark starts"))
    (tmp_path / "FILE").write_text("")
    assert run(["export", str(golden.shared("basic")), *options]) == 2
    assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_hostile_topics_stay_inside(tmp_path: Path) -> None:
    """A topic's name does not lead out of the folder, and comes back as it was."""
    log = LogBuilder()
    for topic in ("..x", "a=b", "%41", "ä b"):
        log.message(topic)
    out = tmp_path / "out"
    reput.export(stores.with_log(tmp_path, log), out, **LOOP)
    assert {path.parent.parent.parent for path in out.rglob("*.parquet")} == {out}
    assert sorted(row["topic"] for row in exported(out)) == sorted(("..x", "a=b", "%41", "ä b"))


@pytest.mark.parametrize("topic", ["x" * 250, "%" * 90])
def test_a_topic_too_long_for_a_folder(tmp_path: Path, topic: str) -> None:
    """A name that is too long with `topic=` before it, or with its signs as %25, is reported; others are written."""
    log = LogBuilder()
    log.message(topic)
    log.message("orders")
    store = stores.with_log(tmp_path, log)
    with pytest.raises(ConfigError, match=f"topic {topic[:40]}.*more than 255 bytes"):
        reput.export(store, tmp_path / "out", **LOOP)
    assert reput.export(store, tmp_path / "orders", topics=["orders"], **LOOP).messages == 1


@pytest.mark.golden
def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reput export` says what it did, as text and as JSON, and refuses with exit code 2."""
    store, out = str(golden.shared("basic")), str(tmp_path / "out")
    arguments = ["export", store, "--folder", out, "--no-spark", "-q", "-t", "orders", "--columns", "body"]
    assert run([*arguments, "--json"]) == 0
    report, messages = json.loads(capsys.readouterr().out), golden.facts("basic").entries("orders")
    assert (report["ok"], report["messages"]) == (True, messages)
    assert run(arguments) == 0
    assert f"{messages:,} messages were there before" in capsys.readouterr().out
    assert run([*arguments, "-t", "clicks"]) == 2
    assert "another folder" in capsys.readouterr().err
    assert run(["export", store + "/none", "--folder", out, "--no-spark"]) == 2
    shutil.rmtree(out)


@pytest.mark.golden
def test_a_topic_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name may be mistyped: exit code 2, and nothing is planned that would refuse the right one."""
    out = tmp_path / "out"
    arguments = ["export", str(golden.shared("basic")), "--folder", str(out), "--no-spark"]
    for topics in (["-t", "nope"], ["-t", "orders", "-t", "nope"]):
        assert run([*arguments, *topics]) == 2
        assert "no topic nope" in capsys.readouterr().err
        assert not out.exists()
    assert run([*arguments, "-t", "orders"]) == 0


@pytest.mark.spark
@pytest.mark.golden
def test_spark_reads_an_export(spark: SparkContext, tmp_path: Path) -> None:
    """Exported by Spark's tasks, and read by Spark with topic and day as columns."""
    from pyspark.sql import SparkSession

    store = golden.shared("basic")
    reput.export(store, tmp_path / "out", spark=spark)
    frame = SparkSession(spark).read.parquet(str(tmp_path / "out"))
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    topics = frames.table(store)["topic"].to_pylist()
    assert counts == {topic: topics.count(topic) for topic in set(topics)}


def test_salvage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage ends an export with exit code 1; with --salvage it continues after it, and lists what it skipped."""
    log, (store,) = grown(tmp_path, (200,))
    stores.rebuild(store)
    hurt = log.placed[70]
    path = store / paths.COMMIT_LOG / paths.offset_name(hurt.offset // (1 << 14) * (1 << 14))
    data = bytearray(path.read_bytes())
    data[hurt.offset % (1 << 14) + 4] ^= 0xFF
    path.write_bytes(data)
    out = tmp_path / "out"
    verb = ["export", str(store), "--folder", str(out), "--no-spark"]
    assert run(verb) == 1
    assert "reput check" in capsys.readouterr().err
    assert run([*verb, "--salvage"]) == 0
    assert f"log offset {hurt.offset}" in capsys.readouterr().err
    places = [row["physicalOffset"] for row in exported(out)]
    assert places == [placed.offset for placed in log.placed if placed.offset != hurt.offset]
    assert run([*verb, "--salvage", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert [(gap["begin"], gap["size"]) for gap in reported["gaps"]] == [(hurt.offset, hurt.size)]
    assert reported["messages"] == 0


def test_salvage_with_a_missing_file(tmp_path: Path) -> None:
    """A file that is missing in the middle is reported, and the messages of all others are exported."""
    log, (store,) = grown(tmp_path, (200,))
    (store / paths.COMMIT_LOG / paths.offset_name(1 << 14)).unlink()
    report = reput.export(store, tmp_path / "out", salvage=True, **LOOP)
    assert report.messages == sum(placed.offset // (1 << 14) != 1 for placed in log.placed)
    assert any("16384" in note for note in report.notes)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("is_pipe", [True, False])
def test_messages_of_a_log_file_that_was_replaced_were_left_out_in_silence(
    tmp_path: Path, number: int, is_pipe: bool
) -> None:
    """A folder or a named pipe in the place of a log file is an error, also of the first one; --salvage goes on."""
    log, (store,) = grown(tmp_path, (200,))
    path = store / paths.COMMIT_LOG / paths.offset_name(number << 14)
    path.unlink()
    (os.mkfifo if is_pipe else os.mkdir)(path)
    with pytest.raises(DamagedStoreError, match=f"{path}|missing") as refused:
        reput.export(store, tmp_path / "out", **LOOP)
    assert "--salvage" in str(refused.value)
    report = reput.export(store, tmp_path / "out", salvage=True, **LOOP)
    assert report.messages == sum(placed.offset // (1 << 14) != number for placed in log.placed)
    assert any(note.startswith(f"{path}: not a file") for note in report.notes)


def test_a_range_of_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range is decoded piece by piece into the same memory, and what was taken from one piece stays as it was."""
    monkeypatch.setattr(scan, "_PIECE_BYTES", 2000)
    log, (store,) = grown(tmp_path, (200,))
    reput.export(store, tmp_path / "out", **LOOP)
    found = [(row["physicalOffset"], row["queueOffset"], row["storeSize"]) for row in exported(tmp_path / "out")]
    assert found == [(placed.offset, placed.record.queue_offset, placed.size) for placed in log.placed]


def flipped(store: Path, offset: int) -> None:
    """Damage the byte of a log of 1 MiB files at a log offset."""
    path = store / paths.COMMIT_LOG / paths.offset_name(offset >> 20 << 20)
    data = bytearray(path.read_bytes())
    data[offset & (1 << 20) - 1] ^= 0xFF
    path.write_bytes(data)


def reported_by(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the report of `reput export --json`."""
    assert run(["export", *arguments, "--no-spark", "--json"]) == 0
    reported: dict[str, Any] = json.loads(capsys.readouterr().out)
    return reported


@pytest.mark.golden
@pytest.mark.parametrize("state", ["rebuilt", "closed", "crashed"])
def test_salvage_lists_a_damaged_last_record(tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str) -> None:
    """Bytes of no record at the log's end are a gap as any other, and are read once they are restored.

    Only after a crash they may be a torn record, which an export without --salvage leaves out.
    """
    store, out = golden.unpack("basic", tmp_path), str(tmp_path / "out")
    rows = frames.table(store, columns="physicalOffset,storeSize").sort_by("physicalOffset").to_pylist()
    offset, size = rows[-1]["physicalOffset"], rows[-1]["storeSize"]
    (in_body,) = (record.body.start for record in golden.records(store) if record.offset == offset)
    if state == "rebuilt":
        reput.rebuild(store, spark=False)
    if state == "crashed":
        (store / paths.ABORT).touch()
    flipped(store, in_body)
    is_damage = state != "crashed"
    assert run(["export", str(store), "--folder", str(tmp_path / "other"), "--no-spark"]) == int(is_damage)
    hint = "`reput export --salvage` skips it" if is_damage else f"with {size} bytes of no record"
    assert hint in capsys.readouterr().err
    reported = reported_by([str(store), "--folder", out, "--salvage"], capsys)
    assert reported["messages"] == len(rows) - 1
    assert [(gap["begin"], gap["size"], gap["marker"]) for gap in reported["gaps"]] == [(offset, size, "")]
    flipped(store, in_body)
    reported = reported_by([str(store), "--folder", out, "--salvage"], capsys)
    assert (reported["messages"], reported["gaps"]) == (1, [])


@pytest.mark.golden
def test_a_gap_of_an_earlier_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gap of an earlier run is reported as such, with the marker whose removal makes the range be read again."""
    store, out = golden.unpack("basic", tmp_path), str(tmp_path / "out")
    rows = frames.table(store, columns="physicalOffset").sort_by("physicalOffset").to_pylist()
    offset = rows[1000]["physicalOffset"]
    flipped(store, offset + 4)
    assert run(["export", str(store), "--folder", out, "--no-spark"]) == 1
    assert "`reput export` skips it with --salvage" in capsys.readouterr().err
    reported_by([str(store), "--folder", out, "--salvage"], capsys)
    flipped(store, offset + 4)
    assert run(["export", str(store), "--folder", out, "--no-spark"]) == 0
    said = capsys.readouterr().err
    assert "skipped by an earlier run" in said
    assert "export to another folder, or remove the range's marker" in said
    [gap] = reported_by([str(store), "--folder", out], capsys)["gaps"]
    Path(gap["marker"]).unlink()
    assert reported_by([str(store), "--folder", out], capsys)["gaps"] == []
    assert len(exported(tmp_path / "out")) == len(rows)


@pytest.mark.golden
@pytest.mark.parametrize("target", ["", "commitlog/x", "lake"])
def test_a_folder_within_the_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    """Nothing is written among a store's files."""
    store = golden.unpack("basic", tmp_path)
    before = sorted(store.rglob("*"))
    assert run(["export", str(store), "--folder", str(store / target), "--no-spark"]) == 2
    assert "lies within the store" in capsys.readouterr().err
    assert sorted(store.rglob("*")) == before


def test_messages_after_a_lost_end_were_never_exported(tmp_path: Path) -> None:
    """A log that has lost its end, and has gone on, is not that of the export: by its end, and by its last record."""
    store, out, before = tmp_path / "store", tmp_path / "out", tmp_path / "before"

    def put(numbers: range, text: bytes) -> None:
        with reput.MessageStore.open(store, CONFIG, create=True) as opened:
            for number in numbers:
                opened.put_message(reput.Message("t", text + b"%d" % number))

    put(range(15), b"old")
    stores.copy(store, before)
    put(range(15, 20), b"old")
    reput.export(store, out, **LOOP)
    shutil.rmtree(store)
    stores.copy(before, store)
    with pytest.raises(ConfigError, match="the log has lost its end since: it ends at log offset"):
        reput.export(store, out, **LOOP)
    put(range(15, 25), b"new")
    with pytest.raises(ConfigError, match=r"lost its end since: at log offset .* there is another record"):
        reput.export(store, out, **LOOP)
    assert len(exported(out)) == 20


def test_a_log_file_that_expired_before_its_range_was_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier run broke off before it: an error says so, and --salvage lists the file as a gap."""
    log = LogBuilder(1 << 12)
    for _ in range(100):
        log.message("t")
    store, out = stores.with_log(tmp_path, log), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(exports, "export_range", _broken_off)
        with pytest.raises(KeyboardInterrupt):
            reput.export(store, out, **LOOP)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    with pytest.raises(DataLossError, match=r"has left 1 ranges below that, from 0 to 4096: .*--salvage goes on"):
        reput.export(store, out, **LOOP)
    report = reput.export(store, out, salvage=True, **LOOP)
    assert [(gap.begin, gap.end, gap.why) for gap in report.gaps] == [(0, 4096, "missing log file")]
    assert report.messages == len(exported(out)) < 100


def _broken_off(*_: object) -> None:
    raise KeyboardInterrupt
