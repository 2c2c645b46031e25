"""A conversion that was killed goes on with what its finished tasks left, and comes to what an undisturbed one does."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import reput
from reput.cli.main import run
from reput.cli.rebuild import show_report
from reput.errors import EngineError
from reput.files import fs
from reput.formats import own, paths
from reput.formats import resume as fmt
from reput.log.files import list_log_files
from reput.pipeline import convert_queues, rebuild, rebuild_rocksdb, rocksdb_stretches
from reput.pipeline.listener import ProgressListener
from reput.store.layout import find_store
from reput.store.owner import own_store
from support import databases, golden, stores
from support.checked import assert_sound
from support.faults import KILLED, FaultyRebuilds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.store.report import RebuildReport

pytestmark = pytest.mark.golden

SPLIT_MB = 0.25
SOURCES = ("log", "queues")
TARGETS = ("rocksdb", "both")
NOTHING_TO_DO = "nothing was left to do"


def make_stages_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of several tasks, in small stores too."""
    monkeypatch.setattr(convert_queues, "_ENTRIES_A_TASK", 700)
    monkeypatch.setattr(rocksdb_stretches, "_LEAST_ENTRIES", 400)


@pytest.fixture(autouse=True)
def small_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has them."""
    make_stages_small(monkeypatch)


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyRebuilds]:
    """The process that runs the conversions that are killed."""
    with FaultyRebuilds() as process:
        yield process


class Killed(BaseException):
    """Stands for the end of the process: nothing is cleaned up behind it."""


def convert(store: Path, to: str, source: str = "log", **options: Any) -> RebuildReport:
    """Convert in this process, with the golden settings."""
    options = {"split_mb": SPLIT_MB, "config": stores.GOLDEN, **options}
    return reput.convert(store, to=to, source=source, spark=False, **options)  # type: ignore[arg-type]


def killed_in(store: Path, stage: str, to: str, source: str = "log", after: int = 0, **options: Any) -> None:
    """The same, ended when a stage begins, or when `after` of its tasks are done; staging stays as by a kill."""

    class Killer(ProgressListener):
        now = ""

        def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as the listener has it
            Killer.now = name
            if name == stage and not after:
                raise Killed

        def advance(self, finished: int, total: int) -> None:  # noqa: ARG002 - as the listener has it
            if Killer.now == stage and finished == after:
                raise Killed

    true = fs.remove_tree

    def keep_staging(path: Path | str) -> None:
        if not str(path).rpartition("/")[2].startswith("staging-"):
            true(path)

    fs.remove_tree = keep_staging  # type: ignore[assignment]
    try:
        with pytest.raises(Killed):
            convert(store, to, source, listener=Killer(), **options)
    finally:
        fs.remove_tree = true
    assert staging(store)


def staging(store: Path) -> Path:
    """The folder that a killed conversion has left."""
    (found,) = (store / paths.REPUT).glob("staging-*")
    return found


def content(store: Path, to: str) -> dict[str, Any]:
    """All that a conversion makes: bytes of queue files, and keys and values."""
    found = stores.indexes(store)
    return found if to == "file" else found | databases.content(store)


def taken_over(report: RebuildReport) -> dict[str, tuple[int, int]]:
    """By stage, the tasks that were taken over, of so many."""
    return {one.stage: (one.taken_over, one.tasks) for one in report.taken_over}


class Counted:
    """Counts the tasks that are really done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.tables = 0
        decode, take, build = rebuild.decode_and_sink, convert_queues.take_entries, rebuild_rocksdb.build_tables

        def reading(true: Any) -> Any:
            def called(*arguments: Any) -> Any:
                self.read += 1
                return true(*arguments)

            return called

        def building(*arguments: Any) -> Any:
            self.tables += 1
            return build(*arguments)

        monkeypatch.setattr(rebuild, "decode_and_sink", reading(decode))
        monkeypatch.setattr(convert_queues, "take_entries", reading(take))
        monkeypatch.setattr(rebuild_rocksdb, "build_tables", building)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_finished_work_is_not_done_again(source: str, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the verification, no task is done again: counted; the result is that of an undisturbed run."""
    store, other = golden.unpack("basic", tmp_path), golden.unpack("basic", tmp_path / "other")
    killed_in(store, "verify", to, source)
    counted = Counted(monkeypatch)
    report = convert(store, to, source)
    assert (counted.read, counted.tables) == (0, 0)
    found = taken_over(report)
    assert all(taken == tasks > 1 for taken, tasks in found.values())
    assert set(found) == {"decode" if source == "log" else "read", "tables"}
    assert "verify" in report.seconds
    fresh = convert(other, to, source)
    assert (counted.read, counted.tables) == tuple(tasks for _, tasks in found.values())
    assert fresh.taken_over == []
    assert (report.queues, report.queue_entries, report.topics) == (fresh.queues, fresh.queue_entries, fresh.topics)
    assert content(store, to) == content(other, to)
    assert_sound(store, stores.GOLDEN)
    assert to == "rocksdb" or list(reput.diff(store)) == []
    assert list(reput.diff(store, other)) == []
    assert stores.leftovers(store) == []


@pytest.mark.parametrize(("stage", "after"), [("decode", 0), ("decode", 3), ("merge", 0), ("tables", 2), ("ingest", 0)])
def test_what_is_left_is_done(stage: str, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed anywhere, the tasks of both runs together are those of one."""
    store = golden.unpack("basic", tmp_path)
    counted = Counted(monkeypatch)
    killed_in(store, stage, "both", after=after)
    report = convert(store, "both")
    found = taken_over(report)
    assert counted.read == found["decode"][1] > 3
    assert counted.tables == found["tables"][1] > 2
    assert_sound(store, stores.GOLDEN)
    assert list(reput.diff(store)) == []


def test_a_stage_that_had_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report as text names the stages of which something was taken over, and no others."""
    store = golden.unpack("basic", tmp_path)
    killed_in(store, "decode", "rocksdb", after=2)
    report = convert(store, "rocksdb")
    assert {taken for taken, _ in taken_over(report).values()} == {0, 2}
    show_report(report)
    (told,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("resumed: "))
    assert told.startswith("resumed: decode: 2 of ")


def test_killed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first run did, and the second, the third takes over; nobody did anything twice."""
    store = golden.unpack("basic", tmp_path)
    counted = Counted(monkeypatch)
    for after in (2, 1, 1):
        killed_in(store, "decode", "rocksdb", after=after)
    report = convert(store, "rocksdb")
    assert taken_over(report)["decode"] == (4, counted.read)
    assert_sound(store, stores.GOLDEN)


def test_back_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way, RocksDB to files, from both sources: entries in their places are proved as well."""
    for source in SOURCES:
        store, other = golden.unpack("rocksdb", tmp_path / source), golden.unpack("rocksdb", tmp_path / f"{source}2")
        convert(other, "file", source)
        killed_in(store, "publish", "file", source)
        with monkeypatch.context() as patched:
            counted = Counted(patched)
            report = convert(store, "file", source)
            assert counted.read == 0
        assert [taken == tasks > 1 for taken, tasks in taken_over(report).values()] == [True]
        assert stores.indexes(store) == stores.indexes(other)
        assert_sound(store, stores.GOLDEN)


class Left(NamedTuple):
    """A store whose conversion to both was killed in front of the database, and what comes of an undisturbed one."""

    kept: Path
    store: Path
    wanted: dict[str, Any]

    def fresh(self) -> Path:
        """The store as it was then, in its place and with its times: to be spoiled."""
        shutil.rmtree(self.store)
        return Path(shutil.copytree(self.kept, self.store))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """One for all tests that begin there."""
    folder = tmp_path_factory.mktemp("left")
    store, other = golden.unpack("basic", folder), golden.unpack("basic", folder / "other")
    with pytest.MonkeyPatch.context() as patched:
        make_stages_small(patched)
        convert(other, "both")
        killed_in(store, "ingest", "both")
    return Left(Path(shutil.copytree(store, folder / "kept")), store, content(other, "both"))


def tampered() -> Iterator[tuple[str, str, str]]:
    """What is spoiled: which file in staging, how, and in which stage that is noticed."""
    for how in ("a byte", "cut", "gone"):
        yield "parts/1.ranges", how, "decode"
        yield "parts/1.values", how, "decode"
        yield "parts/*.sst", how, "tables"
        yield "parts/*.ends", how, "tables"
    for how in ("a byte", "gone"):
        yield "consumequeue/orders/0/0*0", how, "decode"
    for how in ("a byte", "cut"):
        yield "done/decode-1", how, ""
        yield "done/tables-1", how, ""


@pytest.mark.parametrize(("name", "how", "stage"), [*tampered()])
def test_tampered_leftovers_are_not_believed(name: str, how: str, stage: str, left: Left) -> None:
    """A part that is not as its task left it is made again, and the report says so; the result is right."""
    store = left.fresh()
    victim = min(staging(store).glob(name))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2 if "done" in name or "parts" in name else 7] ^= 1
    if how == "gone":
        victim.unlink()
    else:
        victim.write_bytes(data if how == "a byte" else data[:-1])
    report = convert(store, "both")
    noted = [note for note in report.notes if "are made again" in note]
    assert (len(noted) == 1 and noted[0].startswith(stage)) if stage else not noted
    assert any(taken < tasks for taken, tasks in taken_over(report).values())
    assert content(store, "both") == left.wanted
    assert stores.leftovers(store) == []


@pytest.mark.parametrize("field", ["name", "count"])
def test_forged_ranges_are_not_believed(field: str, left: Left) -> None:
    """A topic that leads out of the store, or a count below 0, is not believed though all checksums are right."""
    store = left.fresh()
    folder = staging(store)
    ranges, entry = folder / "parts" / "1.ranges", folder / "done" / "decode-1"
    data = bytearray(ranges.read_bytes())
    rows, names = (int.from_bytes(data[at : at + 8], "little") for at in (0, 8))
    if field == "name":
        data[len(data) - names : len(data) - names + 3] = b"../"
    else:
        data[16 + 16 * rows : 24 + 16 * rows] = (-5).to_bytes(8, "little", signed=True)
    ranges.write_bytes(data)
    told = fmt.decode_done(entry.read_bytes())
    assert told is not None
    files = tuple(
        fmt.FileProof(file.name, file.size, zlib.crc32((folder / "parts" / file.name).read_bytes()))
        for file in told.files
    )
    entry.write_bytes(fmt.encode_done(told._replace(files=files)))
    report = convert(store, "both")
    assert any("decode: 1 of" in note and "made again" in note for note in report.notes)
    assert content(store, "both") == left.wanted


def test_strangers_in_a_leftover_do_not_go_live(tmp_path: Path) -> None:
    """What no finished task vouches for is removed: queues, database files, parts."""
    store, other = golden.unpack("basic", tmp_path), golden.unpack("basic", tmp_path / "other")
    convert(other, "rocksdb")
    killed_in(store, "verify", "rocksdb")
    for name in ("consumequeue/strange/0/00000000000000000000", "consumequeue/CURRENT", "index/1", "parts/99.ranges"):
        path = staging(store) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 20)
    report = convert(store, "rocksdb")
    assert all(taken == tasks for taken, tasks in taken_over(report).values())
    assert content(store, "rocksdb") == content(other, "rocksdb")
    assert not (store / paths.CONSUME_QUEUE / "strange").exists()


def grow(store: Path) -> None:
    """Write to the log's last file, as a broker would."""
    path = list_log_files(store / paths.COMMIT_LOG).files[-1].path
    data = path.read_bytes()
    path.write_bytes(data)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def other_config(store: Path) -> None:
    """Commit an offset, as a broker would."""
    (store / paths.CONFIG).mkdir(exist_ok=True)
    (store / paths.CONFIG / "consumerOffset.json").write_text("{}")


def damage(store: Path) -> None:
    """Spoil what says which conversion it was."""
    (staging(store) / fmt.RESUME_NAME).write_bytes(b"00000000\n{}")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"to": "rocksdb"}, "to make other queues"),
        ({"source": "queues"}, "from something else"),
        (grow, "the log has changed"),
        (other_config, "checkpoint or config/"),
        ({"split_mb": 0.5}, "settings have changed"),
        (
            {"config": replace(stores.GOLDEN, mapped_file_size_consume_queue=4000, force_setting=True)},
            "settings have changed",
        ),
        (damage, "is damaged"),
    ],
)
def test_another_conversion_begins_again(what: Any, why: str, left: Left) -> None:
    """Leftovers of another target, source, log, store or setting are removed, and the report says why."""
    store = left.fresh()
    options = {"to": "both"}
    if callable(what):
        what(store)
    else:
        options |= what
    report = convert(store, **options)  # type: ignore[arg-type]
    assert report.taken_over == []
    assert any(why in note and "begins again" in note for note in report.notes)
    assert stores.leftovers(store) == []
    assert "config" in options or list(reput.diff(store, golden.shared("basic"))) == []


def test_whoever_changes_the_store_meanwhile_removes_the_leftovers(left: Left) -> None:
    """Another command, or a writer, between the two runs: the second one begins again."""
    store = left.fresh()
    with own_store(find_store(store, stores.GOLDEN)):
        pass
    assert stores.leftovers(store) == []
    assert convert(store, "both").taken_over == []


def test_a_removed_conversion_is_named(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    """`info` says what the killed conversion's folder is; a writer that removes it says so, and a reader leaves it."""
    store = left.fresh()
    name = staging(store).name
    assert run(["info", str(store)]) == 0
    assert f"{name} is a conversion that was killed: the same `reput convert` goes on" in capsys.readouterr().out
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        assert not any(name in note for note in opened.notes)
    with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
        removed, meant = (note for note in opened.notes if name in note)
    assert removed.startswith("removed what an earlier job had left")
    assert "`reput convert` that was killed and could have gone on" in meant
    assert stores.leftovers(store) == []
    assert reput.info(store).own.resumable is None


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("function", ["rename", "remove_tree"])
def test_killed_in_the_swap(
    function: str, source: str, faulty: FaultyRebuilds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the swap has begun the next run ends it, and reports what the first one did: nothing is built again."""
    options = {"to": "rocksdb", "source": source, "golden": True, "what": "kill"}
    calls = faulty.run(golden.unpack("basic", tmp_path), function, **options).calls
    for at in range(calls, 0, -1):
        store = golden.unpack("basic", tmp_path / str(at))
        assert faulty.run(store, function, at=at, **options).how == KILLED
        live = (store / paths.CONSUME_QUEUE / "CURRENT").exists()
        if not live and not (store / paths.REPUT / own.INTENT_NAME).exists():
            assert at < calls
            return
        report = convert(store, "rocksdb", source)
        assert any(NOTHING_TO_DO in note for note in report.notes)
        assert (report.queues, report.queue_entries, report.taken_over) == (29, 2845, [])
        show_report(report)
        # No rate is told of work that this run has not done.
        assert re.fullmatch(r"\d+\.\d s", capsys.readouterr().out.splitlines()[-1])
        assert stores.leftovers(store) == []
        assert_sound(store, stores.GOLDEN)


@pytest.mark.parametrize("error", [KeyboardInterrupt, EngineError])
def test_ended_from_outside(error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, and a Spark that breaks down, leave what was finished to the next run."""
    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store, inodes=True)

    def broken(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(rebuild_rocksdb, "plan_stretches", broken)
        with pytest.raises(error):
            convert(store, "rocksdb")
    assert stores.digest(store, inodes=True) == before
    report = convert(store, "rocksdb")
    taken, tasks = taken_over(report)["decode"]
    assert taken == tasks > 1


def test_with_ext(tmp_path: Path) -> None:
    """With ConsumeQueueExt, whose units change queue files, a run resumes all the same, at every stage."""
    other = golden.unpack("ext", tmp_path / "other")
    convert(other, "both")
    for stage, after in (("decode", 2), ("ext", 0), ("verify", 0)):
        store = golden.unpack("ext", tmp_path / stage)
        killed_in(store, stage, "both", after=after)
        report = convert(store, "both")
        assert taken_over(report)["decode"][1] > 2
        assert content(store, "both") == content(other, "both")
        assert list(reput.diff(store, other, config=stores.GOLDEN)) == []


@pytest.mark.spark
def test_spark_goes_on_with_what_a_loop_has_left(spark: Any, tmp_path: Path) -> None:
    """And the other way round: who calls the tasks makes no difference."""
    store = golden.unpack("basic", tmp_path)
    killed_in(store, "tables", "both", after=2)
    report = reput.convert(store, to="both", spark=spark, config=stores.GOLDEN, split_mb=SPLIT_MB)
    found = taken_over(report)
    assert found["decode"][0] == found["decode"][1]
    assert found["tables"][0] == 2
    assert_sound(store, stores.GOLDEN)
