"""`reput dump` as people and programs call it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from reput.cli.main import cli
from reput.cli.shared.parts import body_values
from reput.errors import ConfigError, DamagedStoreError, ReputError
from reput.formats import paths
from reput.formats.index.index_file import decode_header
from reput.formats.java.hashing import index_key_hash
from reput.formats.log.record import Record
from support import golden
from support.records import LogBuilder

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = ("pyspark", "py4j", "numba", "llvmlite", "pyarrow", "pandas")
SCRIPT = (
    "import sys\nfrom reput.cli.main import main\n"
    "try:\n    main(sys.argv[1:])\nfinally:\n"
    f"    print('loaded', *[n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
)


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, ["dump", *map(str, arguments)], standalone_mode=False)


def lines(*arguments: object) -> list[dict[str, Any]]:
    """The JSON lines that a call gives."""
    return [json.loads(line) for line in call(*arguments, "--json").stdout.splitlines()]


# --- log ------------------------------------------------------------------------------------------


@pytest.fixture
def ticking(tmp_path: Path) -> tuple[Path, list[Record]]:
    """A log of five files, a record a second, and its records."""
    log = LogBuilder(file_size=1 << 14, tick_ms=1000)
    for n in range(600):
        log.message("ab"[n % 2], queue_id=n % 3, body=b"%d" % n)
    return log.write(tmp_path / "store", preallocated=True), [placed.record for placed in log.placed]


def test_log_ends(ticking: tuple[Path, list[Record]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative offset shows the last records, or the last ones of a topic and a queue, however far back they lie."""
    monkeypatch.setattr("reput.log.read.reader._RUN_UP_BYTES", 1000)
    store, records = ticking
    for count in (1, 10, 200, 600, 1000):
        reported = [value["physical_offset"] for value in lines("log", store, "--physical-offset", -count)]
        assert reported == [record.physical_offset for record in records[-count:]]
    some = [record.physical_offset for n, record in enumerate(records) if n % 6 == 1]
    assert [
        value["physical_offset"] for value in lines("log", store, "-t", "b", "-q", 1, "--physical-offset", -7)
    ] == some[-7:]
    assert [value["physical_offset"] for value in lines("log", store, "--physical-offset", -5, "-c", 2)] == [
        record.physical_offset for record in records[-5:-3]
    ]
    none = call("log", store, "-t", "c", "--physical-offset", -3)
    assert (none.stdout, none.return_value) == ("", 0)
    assert "no such record" in none.stderr


def test_log_times(ticking: tuple[Path, list[Record]]) -> None:
    """--since and --until choose by store time, both of them inclusive."""
    store, records = ticking
    first = records[0].store_timestamp
    for begin, end in ((0, 599), (100, 200), (599, 599), (0, 0), (450, 10_000)):
        reported = lines("log", store, "--since", first + begin * 1000, "--until", first + end * 1000)
        assert [value["queue_offset"] for value in reported] == [
            record.queue_offset for record in records[begin : min(end, 599) + 1]
        ]
    none = call("log", store, "--until", first - 1_000_000)
    assert (none.stdout, none.return_value) == ("", 0)
    assert "no such record was stored in that time" in none.stderr
    assert "give one of them" in str(call("log", store, "--physical-offset", -1, "--since", "-1h").exception)


def test_the_last_records_behind_damage(ticking: tuple[Path, list[Record]]) -> None:
    """Damage among the last records is reported, and does not hide that it lies there."""
    store, records = ticking
    damaged = records[-3].physical_offset
    path = store / paths.COMMIT_LOG / f"{damaged // (1 << 14) * (1 << 14):020}"
    data = bytearray(path.read_bytes())
    data[damaged % (1 << 14) + 20] ^= 0xFF
    data[damaged % (1 << 14) + 4] ^= 0xFF
    path.write_bytes(bytes(data))
    done = call("log", store, "--physical-offset", -5, "--json")
    assert [json.loads(line)["physical_offset"] for line in done.stdout.splitlines()] == [
        record.physical_offset for record in records[-6:-3]
    ]
    assert done.return_value == 1
    assert f"--physical-offset {records[-2].physical_offset} continues there" in done.stderr


@pytest.mark.golden
def test_log_shows_every_record() -> None:
    """All records of RocketMQ's log come out in order, each with the values that it holds."""
    store = golden.shared("basic")
    reported = lines("log", store)
    records: list[Record] = []
    from reput.log.read.files import list_log_files
    from reput.log.read.scan import LogWalk

    records = [found.decode() for found in LogWalk(list_log_files(store / paths.COMMIT_LOG), 0)]
    assert [value["physical_offset"] for value in reported] == [record.physical_offset for record in records]
    for value, record in zip(reported, records, strict=True):
        body = value["body"].encode() if value["body_encoding"] == "text" else base64.b64decode(value["body"])
        assert body == record.body
        assert (value["topic"], value["queue_id"], value["queue_offset"], value["size"]) == (
            record.topic.decode(),
            record.queue_id,
            record.queue_offset,
            record.size,
        )
        assert value["message_id"] == record.message_id


@pytest.mark.golden
def test_log_ranges() -> None:
    """--physical-offset takes any offset, -c counts what is shown, -t and -q choose."""
    store = golden.shared("basic")
    _, second, third, *_ = golden.records(store)
    found = lines("log", store, "--physical-offset", 1, "-c", 2)
    assert [value["physical_offset"] for value in found] == [second.offset, third.offset]
    file_size = golden.LOG_FILE_SIZE
    assert [value["physical_offset"] for value in lines("log", store, "--physical-offset", file_size - 1, "-c", 1)] == [
        file_size
    ]
    chosen = lines("log", store, "-t", "payments", "-q", 3, "-c", 5)
    assert len(chosen) == 5
    assert {(value["topic"], value["queue_id"]) for value in chosen} == {("payments", 3)}
    assert lines("log", store, "-c", 0) == lines("log", store, "--physical-offset", 10**12) == []


def test_log_text_is_a_line_a_record(tmp_path: Path) -> None:
    """Text has one line a record, whatever tags, keys and bodies hold; a body is shown only when it is asked for."""
    log = LogBuilder(1 << 16)
    log.message(
        "orders", queue_id=2, tags="a\tb\nc\x1b", keys="k1 k2", unique_key="U", body=b"first\nsecond", more={"x": "y"}
    )
    log.write(tmp_path)
    (line,) = call("log", tmp_path).stdout.splitlines()
    cells = line.split("\t")
    assert (cells[0], cells[2], cells[3], cells[5], cells[6]) == ("0", "orders/2", "0", "a\\tb\\nc\\x1b", "U k1 k2")
    assert len(cells) == 7
    (line,) = call("log", tmp_path, "--body-bytes", 8).stdout.splitlines()
    assert line.split("\t")[7] == "text:first\\nse... (12 bytes)"


def test_log_tells_transactions_and_compression(tmp_path: Path) -> None:
    """JSON names the kind of transaction and of compression that sysFlag says."""
    log = LogBuilder(1 << 16)
    log.message("orders", transaction="prepared")
    log.message("orders", transaction="rollback", sys_flag=0x201)
    log.message("orders")
    reported = lines("log", log.write(tmp_path))
    assert [value["transaction"] for value in reported] == ["prepared", "rollback", None]
    assert [value["compression"] for value in reported] == [None, "zstd", None]


def test_bodies_say_what_they_are() -> None:
    """A body is text if all of it is UTF-8, otherwise base64; a cut falls between characters, and is reported."""
    assert body_values("支付".encode()) == {
        "body": "支付",
        "body_encoding": "text",
        "body_length": 6,
        "body_truncated": False,
    }
    assert body_values("支付".encode(), 4) == {
        "body": "支",
        "body_encoding": "text",
        "body_length": 6,
        "body_truncated": True,
    }
    assert body_values(b"ab\xff", 2) == {
        "body": base64.b64encode(b"ab").decode(),
        "body_encoding": "base64",
        "body_length": 3,
        "body_truncated": True,
    }
    assert body_values(b"")["body_encoding"] == "text"


def test_log_damage_is_exit_code_1(tmp_path: Path) -> None:
    """Bytes that are no record before good records have place, verdict and next record on stderr; exit code 1."""
    log = LogBuilder(1 << 16)
    log.message("orders")
    at = log.garbage(b"no record at all")
    after = log.message("orders")
    log.write(tmp_path)
    result = call("log", tmp_path)
    assert result.return_value == 1
    assert len(result.stdout.splitlines()) == 1
    assert f"log offset {at}" in result.stderr
    assert f"--physical-offset {after.offset}" in result.stderr
    assert paths.offset_name(0) in result.stderr
    later = call("log", tmp_path, "--physical-offset", after.offset)
    assert (later.return_value, len(later.stdout.splitlines())) == (0, 1)


def test_log_stops_at_a_bad_crc_unless_told(tmp_path: Path) -> None:
    """A body that does not fit its CRC is damage; --no-verify-crc reads on."""
    log = LogBuilder(1 << 16)
    for _ in range(3):
        log.message("orders", body=b"12345678")
    log.write(tmp_path)
    path = tmp_path / paths.COMMIT_LOG / paths.offset_name(0)
    path.write_bytes(path.read_bytes().replace(b"12345678", b"12345679", 1))
    assert call("log", tmp_path).return_value == 1
    result = call("log", tmp_path, "--no-verify-crc")
    assert (result.return_value, len(result.stdout.splitlines())) == (0, 3)


def test_a_torn_tail_ends_the_log_with_success(tmp_path: Path) -> None:
    """A half-written last record is a note on stderr, and no failure."""
    log = LogBuilder(1 << 16)
    half = log.message("orders").data[:60]
    at = log.garbage(half)
    result = call("log", log.write(tmp_path))
    assert result.return_value == 0
    assert f"log offset {at}" in result.stderr
    assert len(result.stdout.splitlines()) == 1


def test_an_unknown_topic_in_the_log_is_refused(tmp_path: Path) -> None:
    """A topic without records is refused as other verbs do, once all of the log was looked through."""
    log = LogBuilder(4096)
    log.message("orders")
    result = call("log", log.write(tmp_path), "-t", "order")
    assert isinstance(result.exception, ConfigError)
    assert "no topic order in the log. Near it: orders" in str(result.exception)
    assert result.stdout == ""


# --- queue ----------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "crash", "double", "rocksdb"])
def test_queue_shows_rocketmqs_entries(name: str) -> None:
    """Every entry of every queue is what RocketMQ answered, and each points to a record that says the same."""
    answers = [answer for answer in golden.answers(name) if "queue" in answer]
    reported = lines("queue", golden.shared(name), "--records", "--body-bytes", 0)
    shown = {
        (value["topic"], value["queue_id"], value["queue_offset"]): (
            value["physical_offset"],
            value["size"],
            value["tags_code"],
        )
        for value in reported
    }
    assert len(shown) == len(reported) == sum(answer["max"] - answer["min"] for answer in answers)
    # RocketMQ's answer lists the entries of a queue's first file only.
    for answer in answers:
        for number, *entry in answer["entries"]:
            assert shown[*answer["queue"], number] == tuple(entry[:3])
    assert all(value["fault"] is None and value["record"]["size"] == value["size"] for value in reported)


@pytest.mark.golden
def test_queue_ranges() -> None:
    """A negative -o counts from the end; -c limits each queue; an offset after the end is reported."""
    store = golden.shared("basic")
    end = golden.facts("basic").entries("orders")
    assert [value["queue_offset"] for value in lines("queue", store, "-t", "orders", "-o", -2)] == [end - 2, end - 1]
    assert [value["queue_offset"] for value in lines("queue", store, "-t", "orders", "-o", 298, "-c", 4)] == [
        298,
        299,
        300,
        301,
    ]
    assert len(lines("queue", store, "-t", "payments", "-c", 3)) == 12
    assert len(lines("queue", store, "-t", "orders", "-o", -10 * end)) == end
    result = call("queue", store, "-t", "orders", "-o", end + 1)
    assert (result.return_value, result.stdout) == (0, "")
    assert f"0 to {end - 1}" in result.stderr


@pytest.mark.golden
def test_queue_names_what_there_is() -> None:
    """An unknown topic or queue is an error that lists those that are there; so is a kind that cannot be read."""
    store = golden.shared("basic")
    topic = call("queue", store, "-t", "nothing").exception
    assert isinstance(topic, ConfigError)
    assert "orders" in str(topic)
    queue = call("queue", store, "-t", "payments", "-q", 9).exception
    assert isinstance(queue, ConfigError)
    assert "0, 1, 2, 3" in str(queue)
    assert isinstance(call("queue", store, "--kind", "rocksdb").exception, ConfigError)
    double = golden.shared("double")
    assert lines("queue", double, "--kind", "rocksdb", "-t", "orders") == lines("queue", double, "-t", "orders")


@pytest.mark.golden
def test_entries_that_do_not_fit_are_told(tmp_path: Path) -> None:
    """An entry that points into the middle of a record, or to another one, is a fault: place on stderr, exit code 1."""
    store = golden.unpack("basic", tmp_path)
    path = store / paths.CONSUME_QUEUE / "orders" / "0" / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    data[20:28] = bytes(8)
    path.write_bytes(data)
    assert call("queue", store, "-t", "orders", "-c", 3).return_value == 0
    result = call("queue", store, "-t", "orders", "-c", 3, "--records")
    assert result.return_value == 1
    assert f"{path} at 0:" in result.stderr
    assert f"{path} at 20:" in result.stderr
    assert [value["fault"] is None for value in lines("queue", store, "-t", "orders", "-c", 3, "--records")] == [
        False,
        False,
        True,
    ]


@pytest.mark.golden
def test_expired_records_are_no_damage(tmp_path: Path) -> None:
    """Entries whose records the log has no more are shown as expired, and the exit code is 0."""
    store = golden.unpack("basic", tmp_path)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    result = call("queue", store, "-t", "orders", "-c", 1, "--records", "--json")
    assert result.return_value == 0
    assert "expired" in json.loads(result.stdout)["fault"]


@pytest.mark.golden
def test_a_missing_queue_file_is_damage(tmp_path: Path) -> None:
    """A file that is missing in the middle of a queue is an error with the queue offset and a remedy."""
    store = golden.unpack("basic", tmp_path)
    (store / paths.CONSUME_QUEUE / "orders" / "0" / paths.offset_name(6000)).unlink()
    error = call("queue", store, "-t", "orders").exception
    assert isinstance(error, DamagedStoreError)
    assert "queue offset 300" in str(error)
    assert "rebuild" in str(error)


@pytest.mark.golden
def test_queues_of_batches() -> None:
    """An entry of a batch counts for all messages of its record; the offset that is asked for may lie inside it."""
    store = golden.shared("batch")
    golden_lines = [line for line in golden.answers("batch") if "queue" in line and line["queue"] == ["batches", 1]]
    found = lines("queue", store, "-t", "batches", "-q", 1, "--records")
    wanted = golden_lines[0]["entries"]
    reported = [
        [one[name] for name in ("queue_offset", "physical_offset", "size", "tags_code", "messages")] for one in found
    ]
    assert reported[: len(wanted)] == wanted
    assert sum(one["messages"] for one in found) == golden_lines[0]["max"]
    assert {one["fault"] for one in found} == {None}
    inside = next(one for one in found if one["messages"] > 2)
    asked = call("queue", store, "-t", "batches", "-q", 1, "-o", inside["queue_offset"] + 1, "-c", 1)
    assert asked.stdout.startswith(f"batches/1\t{inside['queue_offset']}\t")
    assert asked.stdout.rstrip().endswith(f"({inside['messages']} messages)")
    everything = {value["topic"] for value in lines("queue", store, "-c", 1)}
    assert {"batches", "orders"} <= everything


@pytest.mark.golden
def test_addresses_in_ext_queues_are_marked() -> None:
    """An ext queue's tags codes, which are addresses, are marked."""
    text = call("queue", golden.shared("ext"), "-c", 1).stdout.splitlines()
    assert all("\t(ext " in line for line in text)
    ext = lines("queue", golden.shared("ext"), "-c", 1)
    assert {value["ext"] for value in ext} == {True}
    assert {len(value["unit"]["bitmap"]) for value in ext} <= {0, 28}
    assert all(value["unit"]["store_timestamp"] > 0 for value in ext)
    assert {value["ext"] for value in lines("queue", golden.shared("basic"), "-c", 1)} == {False}


@pytest.mark.golden
def test_bodies_need_records() -> None:
    """--body-bytes without --records would show nothing: it is refused."""
    refused = call("queue", golden.shared("basic"), "--body-bytes", 9).exception
    assert isinstance(refused, click.UsageError)
    assert "--records" in str(refused)


# --- index ----------------------------------------------------------------------------------------


def items_of(data: bytes) -> int:
    """Return the number of items in an IndexFile: RocketMQ counts one more, because the first has number 1."""
    return decode_header(data).index_count - 1


@pytest.mark.golden
def test_index_shows_headers_and_items() -> None:
    """Each file's header comes first, then its items from number 1 on, as many as the header counts."""
    store = golden.shared("basic")
    reported = lines("index", store)
    headers = [value for value in reported if value["kind"] == "header"]
    assert [value["items"] for value in headers] == [items_of(data) for _, data in golden.index_files(store)]
    assert {(value["slots"], value["items_max"]) for value in headers} == {(golden.INDEX_SLOTS, golden.INDEX_ITEMS)}
    items = [value for value in reported if value["kind"] == "item" and value["file"] == headers[-1]["file"]]
    assert [value["number"] for value in items] == list(range(1, headers[-1]["items"] + 1))


@pytest.mark.golden
def test_index_ranges() -> None:
    """--file chooses a file, --item an item (negative from the end), -c a number of items."""
    store = golden.shared("basic")
    name, data = list(golden.index_files(store))[-1]
    last = items_of(data)
    assert [value["number"] for value in lines("index", store, "--file", name, "--item", -2)[1:]] == [last - 1, last]
    assert [value["number"] for value in lines("index", store, "--file", name, "--item", 5, "-c", 2)[1:]] == [5, 6]


@pytest.mark.golden
def test_a_key_leads_to_its_records() -> None:
    """The chain of a key leads, newest first, to every record that RocketMQ found by it."""
    store = golden.shared("basic")
    asked = 0
    for answer in golden.answers("basic"):
        if "key" not in answer or not answer["phys"] or answer["key"][2] < 64:
            continue
        topic, key = answer["key"][:2]
        reported = [value for value in lines("index", store, "-t", topic, "-k", key) if value["kind"] == "item"]
        slot = index_key_hash(f"{topic}#{key}".encode()) % golden.INDEX_SLOTS
        assert {value["slot"] for value in reported} == {slot}
        assert set(answer["phys"]) <= {value["physical_offset"] for value in reported if value["same_hash"]}
        asked += 1
        if asked == 10:
            break
    assert asked


@pytest.mark.golden
def test_a_chain_that_runs_in_circles_ends(tmp_path: Path) -> None:
    """A link to an item that is not older is damage: the place is reported, and the walk ends."""
    store = golden.unpack("basic", tmp_path)
    reported = lines("index", store, "-t", "orders", "-k", "x")
    first = next(value for value in reported if value["kind"] == "item")
    path = store / paths.INDEX / first["file"]
    at = 40 + golden.INDEX_SLOTS * 4 + first["number"] * 20
    data = bytearray(path.read_bytes())
    data[at + 16 : at + 20] = first["number"].to_bytes(4, "big")
    path.write_bytes(data)
    result = call("index", store, "-t", "orders", "-k", "x")
    assert result.return_value == 1
    assert f"{path} at {at}" in result.stderr


@pytest.mark.golden
def test_odd_index_files_are_told(tmp_path: Path) -> None:
    """A short file, one of an odd length and a header that counts too far are reported with name and remedy."""
    store = golden.unpack("basic", tmp_path)
    *_, path = sorted((store / paths.INDEX).iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:36] + (5000).to_bytes(4, "big") + whole[40:])
    result = call("index", store, "-c", 1)
    assert result.return_value == 1
    assert "counts to item 5000" in result.stderr
    for bad in (whole[:-7], whole[:10]):
        path.write_bytes(bad)
        error = call("index", store).exception
        assert isinstance(error, DamagedStoreError)
        assert path.name in str(error)


@pytest.mark.golden
@pytest.mark.parametrize("arguments", [["-k", "x"], ["-t", "orders"], ["--file", "20000101000000000"]], ids=str)
def test_index_arguments_are_checked(arguments: list[str]) -> None:
    """A key without topic, a topic without key and a file that is not there are refused with what is needed."""
    kind = ConfigError if "--file" in arguments else click.UsageError
    assert isinstance(call("index", golden.shared("basic"), *arguments).exception, kind)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["log", "--physical-offset", 99_999_999],
            "no record at log offset 99999999 or after it; the log's files go from 0 to",
        ),
        (["log", "-q", "99"], "no such record in log offsets 0 to {log_end}"),
        (
            ["log", "--physical-offset", "{inside}", "-c", 1],
            "no record begins at log offset {inside}; the next one begins at {after}",
        ),
        (["queue", "-t", "orders", "-o", 500_000], "no entries there"),
        (
            ["index", "-t", "orders", "-k", "no such key"],
            "no item has the hash of orders#no such key in {index_files} IndexFiles",
        ),
        (["index", "--item", 5000], "no item in {index_files} IndexFiles"),
    ],
    ids=str,
)
def test_nothing_is_never_silent(arguments: list[Any], said: str) -> None:
    """An empty answer comes with a note on stderr that says what was searched."""
    store, facts = golden.shared("basic"), golden.facts("basic")
    seventh, eighth = golden.records(store)[6:8]
    found = {"inside": seventh.offset + 1, "after": eighth.offset, **facts._asdict()}
    arguments, said = [str(argument).format_map(found) for argument in arguments], said.format_map(found)
    result = call(arguments[0], store, *arguments[1:])
    assert result.return_value == 0
    assert said in result.stderr


@pytest.mark.golden
def test_a_place_in_the_last_record_was_said_to_have_a_next_one() -> None:
    """Inside the last record of a log no next record is promised: the note says where the records end."""
    store = golden.shared("basic")
    *_, last = golden.records(store)
    result = call("log", store, "--physical-offset", last.offset + 1)
    assert result.return_value == 0
    assert "the next one begins" not in result.stderr
    assert f"no record at log offset {golden.facts('basic').log_end} or after it" in result.stderr


# --- all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["log", "queue", "index"])
def test_what_is_no_store_is_refused(what: str, tmp_path: Path) -> None:
    """No store, and a store without queues or IndexFiles, are errors with a remedy."""
    assert isinstance(call(what, tmp_path).exception, ReputError)
    LogBuilder(4096).write(tmp_path)
    error = call(what, tmp_path).exception
    assert error is None if what == "log" else "reput rebuild" in str(error)


@pytest.mark.golden
def test_a_start_is_light_and_a_closed_pipe_quiet() -> None:
    """A real process loads neither Spark nor numba nor Arrow, and says nothing when its reader has seen enough."""
    command = [sys.executable, "-c", SCRIPT, "dump", "queue", str(golden.shared("basic")), "--records", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=SOURCE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["queue_offset"] == 0
        process.stdout.close()
        assert process.stderr.read() == "loaded\n"
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [["info"], ["dump", "log"], ["dump", "queue"], ["dump", "index"]], ids=" ".join)
def test_examples_in_the_help_keep_their_lines(arguments: list[str]) -> None:
    """Each example is on a line of its own."""
    shown = CliRunner().invoke(cli, [*arguments, "--help"]).stdout
    examples = [line.strip() for line in shown.splitlines() if line.strip().startswith("reput ")]
    assert len(examples) >= 2
    assert "\\b" not in shown


@pytest.mark.golden
def test_many_faults_do_not_flood(tmp_path: Path) -> None:
    """Many entries that do not fit are reported by the first places, then by their number."""
    store = golden.unpack("basic", tmp_path)
    path = store / paths.CONSUME_QUEUE / "orders" / "0" / paths.offset_name(0)
    path.write_bytes(b"".join((n * 7 + 1).to_bytes(8, "big") + path.read_bytes()[8:20] for n in range(300)))
    result = call("queue", store, "-t", "orders", "--records")
    assert result.return_value == 1
    assert len(result.stderr.splitlines()) == 21
    assert "300 entries in all" in result.stderr
