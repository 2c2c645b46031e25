"""The demo: says what is equal and what is not, and leaves no file."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

import pytest

import reput
from demo import golden_store, large_store, outcome
from demo.__main__ import main
from reput.files import disk_space
from reput.formats import paths
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.pipeline.spark.listener import ProgressListener
from support import golden


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder below which the demo makes its temporary folder; it must be empty at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo without Spark: the same tasks, one after the other."""
    monkeypatch.setattr(outcome, "start_spark", lambda: 0.0)
    monkeypatch.setattr(outcome, "rebuild", rebuild_by_loop)


def rebuild_by_loop(store: Path, config: Path | None) -> RebuildReport:
    """`outcome.rebuild` without Spark."""
    return reput.rebuild(store, config=config, spark=False)


def after_rebuild(monkeypatch: pytest.MonkeyPatch, path: str, offset: int) -> None:
    """Change one byte of the first file that matches `path` once it is rebuilt."""

    def rebuild(store: Path, config: Path | None) -> RebuildReport:
        report = rebuild_by_loop(store, config)
        target = min(store.glob(path))
        data = bytearray(target.read_bytes())
        data[offset] ^= 1
        target.write_bytes(data)
        return report

    monkeypatch.setattr(outcome, "rebuild", rebuild)


@pytest.mark.golden
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_rocketmq_wrote_comes_back_equal(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With Spark, all queue files and IndexFiles of RocketMQ's store come back equal, and no file stays."""
    assert main([]) == 0
    assert not list(scratch.iterdir())

    out = capsys.readouterr().out
    store = golden.shared("basic")
    queue_files, index_files = len(list(golden.queue_files(store))), len(list(golden.index_files(store)))
    assert f"{queue_files} of {queue_files} queue files, {index_files} of {index_files} IndexFiles" in out


@pytest.mark.golden
@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(
    ("path", "offset", "said"),
    [
        ("consumequeue/orders/0/0*", 25, "orders/0/00000000000000000000: differs from RocketMQ's from byte 25 on"),
        ("index/*", 41, "IndexFile 1: differs from RocketMQ's from byte 41 on"),
    ],
)
def test_a_byte_that_differs_is_told(
    scratch: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    offset: int,
    said: str,
) -> None:
    """One wrong byte in a queue file or IndexFile: exit code 1, and the file and byte by name."""
    after_rebuild(monkeypatch, path, offset)

    assert main([]) == 1
    assert said in capsys.readouterr().err
    assert not list(scratch.iterdir())


def test_missing_and_additional_files_differ(tmp_path: Path) -> None:
    """A file that only one side has is a difference, not nothing; so is another length."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for store, names in ((theirs, ("0", "1", "2")), (ours, ("1", "2", "3"))):
        for name in names:
            folder = store / paths.CONSUME_QUEUE / "t" / name
            folder.mkdir(parents=True)
            (folder / paths.offset_name(0)).write_bytes(bytes(20 * (1 + (name == "2" and store is ours))))

    compared = golden_store.compare_queues(theirs, ours)["t"]

    assert compared.text == "1 of 4"
    assert [text.partition(": ")[2] for text in compared.differences] == [
        "was not built",
        "40 bytes, RocketMQ's has 20",
        "RocketMQ had no such file",
    ]
    assert golden_store.compare_indexes(theirs, ours).text == "0 of 0"


@pytest.mark.parametrize(("content", "said"), [(None, "no such file"), (b"no archive", "unpack")])
def test_without_a_golden_store_the_way_is_told(
    scratch: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    said: str,
) -> None:
    """No golden store, or a broken file: exit code 2 and one line that names the file."""
    folder = scratch / "golden"
    folder.mkdir()
    if content is not None:
        (folder / "basic.tar.gz").write_bytes(content)
    monkeypatch.setenv(golden_store.GOLDEN_SWITCH, str(folder))

    assert main([]) == 2

    error = capsys.readouterr().err
    assert "basic.tar.gz" in error
    assert said in error
    assert error.count("\n") == 1
    assert list(scratch.iterdir()) == [folder]


def test_half_a_golden_store_is_refused(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tarball without ConsumeQueues has nothing to compare with: exit code 2, and what is missing."""
    with tarfile.open(scratch / "basic.tar.gz", "w:gz") as archive:
        folder = tarfile.TarInfo("basic/commitlog")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    monkeypatch.setenv(golden_store.GOLDEN_SWITCH, str(scratch))

    assert main([]) == 2
    assert "holds no basic/consumequeue" in capsys.readouterr().err


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("count", [1, 63, 1000, 25_000])
def test_a_store_of_any_size_is_written_and_rebuilt(
    scratch: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    """N messages are written, rebuilt and found right, also where not every queue gets one."""
    assert main([str(count)]) == 0

    printed = capsys.readouterr()
    assert f"Built {count:,} queue entries and {3 * count:,} index items." in printed.out
    assert "differs" not in printed.err
    assert not list(scratch.iterdir())


def test_records_are_as_long_as_announced(tmp_path: Path) -> None:
    """A record of the demo's store takes 296 bytes, like those that are measured."""
    written = large_store.write_store(tmp_path, 100, ProgressListener())

    assert written == 296 * 100


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("offset", [0, 7, 11, 19, 999 * ENTRY_SIZE + 7])
def test_a_wrong_entry_is_told(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """An entry whose offset, size or tags code is wrong: exit code 1, and the entry by name."""
    after_rebuild(monkeypatch, "consumequeue/demo-topic-0/0/*", offset)

    assert main(["64000"]) == 1
    assert f"differs: demo-topic-0/0 entry {offset // ENTRY_SIZE}: " in capsys.readouterr().err
    assert not list(scratch.iterdir())


@pytest.mark.golden
@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(("arguments", "stores"), [([], ["reput/basic", "rocketmq/basic"]), (["5"], ["store"])])
def test_a_store_is_kept(
    scratch: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], stores: list[str]
) -> None:
    """With --keep the stores stay where that says, each named; what is there already is refused and left alone."""
    keep = scratch / "kept"
    assert main([*arguments, "--keep", str(keep)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("Kept")] == [
        f"Kept: {keep / store}" for store in stores
    ]
    assert all((keep / store / paths.CONSUME_QUEUE).is_dir() for store in stores)
    assert main([*arguments, "--keep", str(keep)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert all((keep / store / paths.CONSUME_QUEUE).is_dir() for store in stores)
    assert main(["--keep"]) == 2


@pytest.mark.parametrize("text", ["0", "-5", "many", "1.5", "4e6", "", " ", "\u0663", "9" * 5000, "-h"])
def test_a_wrong_number_is_one_line(scratch: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """A number that is not whole, or not above 0, is refused: exit code 2, one line, no temporary folder."""
    assert main([text]) == 2

    printed = capsys.readouterr()
    assert printed.err.startswith("demo: N=")
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert not list(scratch.iterdir())


def test_a_disk_too_small_is_told_before_anything_is_written(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for N messages: exit code 2, with what is needed, what is free, and what to do."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1 << 30)
    monkeypatch.setattr(large_store, "write_store", None)

    assert main(["4000000"]) == 2

    error = capsys.readouterr().err
    assert "1.0 GiB free" in error
    assert "TMPDIR" in error
    assert not list(scratch.iterdir())


@pytest.mark.usefixtures("loop")
def test_an_interrupted_demo_cleans_up(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the store is rebuilt: one line, and the temporary folder is gone."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outcome, "rebuild", interrupted)

    assert main(["100"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not list(scratch.iterdir())
