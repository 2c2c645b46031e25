"""`reput.scan`: the data source's rows as Arrow batches in this process."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import reput
from reput.connect import read_ahead as ahead
from reput.connect.options.schemas import BODY_ERROR, HEADERS, KAFKA, NATIVE, Column
from reput.connect.scan import log_scan as scan_tasks
from reput.connect.scan.arrays import arrow_schema
from reput.errors import ConfigError, DamagedLogError, NotAStoreError
from reput.formats import paths
from support import frames, golden, stores
from support.records import BODY_AT_V4, LogBuilder

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "scan.md"
MIDDLE_MS, MIDDLE, AFTER_MS = "MIDDLE_MS", "MIDDLE", "AFTER_MS"
"""In a question: the store time of the middle message, as a number and as a date, and the millisecond after it."""

QUESTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"topics": "orders"}, {"topic": "orders"}),
    ({"topics": ["orders", "clicks"]}, {"subscribe": "orders,clicks"}),
    ({"topics": "orders", "queue_id": [0, 1]}, {"assign": '{"orders": [0, 1]}', "failOnMissingTopic": "false"}),
    ({"tags": "A || B"}, {"filter.tag": "A || B"}),
    ({"keys": ["k44", "k36"]}, {"keys": "k44,k36"}),
    ({"since": MIDDLE_MS}, {"startingTimestamp": MIDDLE_MS}),
    ({"since": MIDDLE, "topics": "orders"}, {"startingTimestamp": MIDDLE_MS, "topic": "orders"}),
    ({"until": MIDDLE}, {"endingTimestamp": AFTER_MS}),
    ({"sql": "TAGS = 'A'"}, {"filter.sql": "TAGS = 'A'"}),
    ({"columns": "body, topic"}, {"columns": "body,topic"}),
    (
        {"schema": "kafka", "columns": ["offset", "headers"]},
        {"schema": "kafka", "includeHeaders": "true", "columns": "offset,headers"},
    ),
]


@pytest.mark.parametrize(
    ("part", "columns"),
    [("", (*NATIVE, BODY_ERROR)), ("kafka", (*KAFKA, HEADERS))],
    ids=["native", "kafka"],
)
def test_the_help_names_each_column(part: str, columns: tuple[Column, ...]) -> None:
    """The docstring of `scan` has each column once, with the type that its Arrow array has."""
    text = inspect.getdoc(reput.scan) or ""
    if part:
        (text,) = re.findall(r'With `schema="kafka"`: (.*?)\n\n', text, re.DOTALL)
        rows = re.findall(r"(\w+(?: and \w+)*) \(([^()]*)\)", text.replace("\n", " "))
    else:
        rows = re.findall(r"^\| (\w[\w, ]*) \| (\w[\w<>\[\], ]*) \|$", text, re.MULTILINE)[1:]
    named = [(name, kind) for names, kind in rows for name in re.split(", | and ", names)]
    types = {one.name: str(one.type).replace("tz=", "").replace("element: ", "") for one in arrow_schema(columns)}
    assert sorted(named) == sorted(types.items())


def many(folder: Path, messages: int = 3000) -> Path:
    """A store with only a log of several files."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(messages):
        log.message("orders", queue_id=number % 3, body=b"%d" % number)
    return stores.with_log(folder, log)


def scan_threads() -> list[threading.Thread]:
    """The threads that read ahead."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("reput-scan")]


@pytest.mark.golden
@pytest.mark.parametrize(("arguments", "options"), QUESTIONS, ids=repr)
def test_rows_are_those_of_the_data_source(arguments: dict[str, Any], options: dict[str, Any]) -> None:
    """Each question gives the rows, the order and the schema of the same question to `format("rocketmq")`."""
    middle_ms = golden.facts("basic").middle_ms
    date = datetime.fromtimestamp(middle_ms / 1000, UTC)
    times = {MIDDLE_MS: middle_ms, MIDDLE: date, AFTER_MS: middle_ms + 1}
    arguments, options = (
        {name: times.get(str(value), value) for name, value in asked.items()} for asked in (arguments, options)
    )
    expected = frames.table(golden.shared("basic"), **options)
    with reput.scan(golden.shared("basic"), **arguments) as reader:
        assert reader.schema == expected.schema
        found = reader.read_all()
    assert len(found) > 0
    assert found.equals(expected)


def test_threads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks, read by several threads, come in the log's order."""
    monkeypatch.setattr(ahead, "_THREADS_MAX", 3)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    store = many(tmp_path)
    assert frames.plan(store).tasks > 3
    bodies = reput.scan(store, columns="body").read_all()["body"].to_pylist()
    assert bodies == [b"%d" % number for number in range(3000)]
    assert not scan_threads()


def test_batches_are_made_as_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads stop some batches ahead of a caller who does not go on."""
    made = 0

    def counting(*arguments: Any) -> pa.RecordBatch:
        nonlocal made
        made += 1
        return record_batch(*arguments)

    record_batch = scan_tasks.record_batch
    monkeypatch.setattr(scan_tasks, "record_batch", counting)
    monkeypatch.setattr(scan_tasks, "BATCH_ROWS", 10)
    monkeypatch.setattr(ahead, "_BATCHES_AHEAD", 2)
    monkeypatch.setattr(ahead, "_THREADS_MAX", 1)
    reader = reput.scan(many(tmp_path), columns="body")
    assert made == 0
    reader.read_next_batch()
    for thread in scan_threads():
        thread.join(0.2)
    assert made <= 1 + 2 + 2
    assert sum(batch.num_rows for batch in reader) == 2990


@pytest.mark.parametrize("way", ["close", "drop"])
def test_a_reader_that_is_let_go_ends_its_threads(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is closed or dropped leaves no thread, even if most was not read."""
    monkeypatch.setattr(scan_tasks, "BATCH_ROWS", 10)
    reader = reput.scan(many(tmp_path), columns="body")
    reader.read_next_batch()
    assert scan_threads()
    if way == "close":
        reader.close()
    del reader
    gc.collect()
    assert not scan_threads()


def test_a_program_ends_in_the_middle_of_a_scan(tmp_path: Path) -> None:
    """A program that ends while threads read ahead ends well."""
    script = (
        f"import reput\nreader = reput.scan({str(many(tmp_path))!r}, columns='body')\n"
        "print(reader.read_next_batch().num_rows)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) > 0


def test_damage_is_raised_behind_what_is_sound(tmp_path: Path) -> None:
    """Batches before the damage come, then the data source's error; `fail_on_data_loss=False` passes it over."""
    store = many(tmp_path)
    stores.rebuild(store)
    damaged = sorted((store / paths.COMMIT_LOG).iterdir())[2]
    data = bytearray(damaged.read_bytes())
    data[BODY_AT_V4] ^= 0xFF
    damaged.write_bytes(bytes(data))
    reader = reput.scan(store, columns="body")
    assert reader.read_next_batch().num_rows > 0
    with pytest.raises(DamagedLogError, match=damaged.name):
        reader.read_all()
    assert not scan_threads()
    assert len(reput.scan(store, columns="body", fail_on_data_loss=False).read_all()) == 2999


def test_beside_a_writer(tmp_path: Path) -> None:
    """A scan beside a writer has what was confirmed when it was called, and not what comes later."""
    with reput.MessageStore.open(tmp_path / "store", create=True) as store:
        store.put_message(reput.Message("orders", b"first"))
        reader = reput.scan(tmp_path / "store", columns="body")
        store.put_message(reput.Message("orders", b"second"))
        assert reader.read_all()["body"].to_pylist() == [b"first"]
        assert len(reput.scan(tmp_path / "store").read_all()) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": "bodi"}, "'bodi' is no column"),
        ({"columns": []}, "columns="),
        ({"topics": []}, "topics="),
        ({"keys": ""}, "keys="),
        ({"queue_id": -1}, "queue_id=-1"),
        ({"since": -1}, "since=-1"),
        ({"sql": "a >"}, "SQL|filter|expression"),
        ({"schema": "wide"}, "schema=wide"),
        ({"config": "none.conf"}, "none.conf"),
    ],
    ids=repr,
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], says: str, tmp_path: Path) -> None:
    """An error names the argument before anything is read."""
    with pytest.raises(ConfigError, match=says):
        reput.scan(many(tmp_path, 3), **arguments)


def test_no_store(tmp_path: Path) -> None:
    """A path without a store is refused at once."""
    with pytest.raises(NotAStoreError):
        reput.scan(tmp_path / "nowhere")


def test_the_examples_for_other_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples for pandas, Polars, DuckDB and Arrow in docs/tasks/scan.md run, and give what was put."""
    with reput.MessageStore.open(tmp_path / "store", create=True) as store:
        store.put_messages([reput.Message("orders", b"%d" % n, tags=("paid", "sent")[n % 2]) for n in range(10)])
        store.put_message(reput.Message("clicks", b"one", keys="k"))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    named: dict[str, Any] = {}
    exec(compile(code.replace("/data/store", str(tmp_path / "store")), str(PAGE), "exec"), named)
    assert named["frame"]["body"].tolist() == [b"%d" % n for n in range(10)]
    assert named["frame"]["tags"].value_counts().to_dict() == {"paid": 5, "sent": 5}
    assert named["paid"].shape == (5, 2)
    assert named["sizes"].set_index("topic")["messages"].to_dict() == {"orders": 10, "clicks": 1}
    assert [body.as_py() for body in named["bodies"]] == [b"%d" % n for n in range(10)]


def test_without_pyspark(tmp_path: Path) -> None:
    """A scan of any kind works where PySpark is not installed, and an empty result has its schema."""
    script = textwrap.dedent(f"""
        import sys
        sys.modules["pyspark"] = None
        import reput
        store = {str(many(tmp_path, 30))!r}
        reput.rebuild(store, spark=False)
        print(len(reput.scan(store).read_all()), len(reput.scan(store, topics="orders", queue_id=2).read_all()))
        print(reput.scan(store, since=1 << 60, columns="topic").read_all().schema.names)
    """)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["30 10", "['topic']"]
