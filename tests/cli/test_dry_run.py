"""`--dry-run` of rebuild, convert and delete: says what would be done, or why not, and changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.errors import AccessError, ConfigError, NotAStoreError, StoreLockedError
from reput.formats import paths
from support import golden, stores
from support.processes import writing

RUNS: list[list[str]] = [
    ["rebuild"],
    ["rebuild", "--only", "index"],
    ["rebuild", "--only", "queue", "-t", "orders"],
    ["convert", "--to", "rocksdb"],
    ["convert", "--to", "rocksdb", "--source", "queues"],
    ["convert", "--to", "both"],
    ["delete", "-t", "orders"],
    ["delete", "-t", "orders", "-q", "0"],
]


def call(verb: str, store: Path, *options: str) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, [verb, str(store), *options], standalone_mode=False)


def tree(store: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder of a store: its time, its inode, its bytes."""
    found = {}
    for path in sorted(store.rglob("*")):
        status = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(store))] = (status.st_mtime_ns, status.st_ino, data)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy of RocketMQ's store basic."""
    return golden.unpack("basic", tmp_path)


@pytest.mark.golden
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_nothing_changes(run: list[str], store: Path, tmp_path: Path) -> None:
    """Bytes, times and names stay, as text and as JSON, and no lock or folder is left."""
    before = tree(store)
    verb, *options = run
    text = call(verb, store, *options, "--dry-run")
    assert text.exception is None, text.exception
    assert text.return_value == 0
    assert "would " in text.stdout
    assert "dry run: nothing was changed" in text.stderr
    reported = call(verb, store, *options, "--dry-run", "--json")
    value = json.loads(reported.stdout)
    assert (value["ok"], value["dry_run"]) == (True, True)
    assert tree(store) == before


@pytest.mark.golden
@pytest.mark.parametrize("run", [["rebuild"], ["convert", "--to", "file"], ["delete", "-t", "orders"]], ids=" ".join)
def test_nothing_changes_where_queues_are_in_rocksdb(run: list[str], tmp_path: Path) -> None:
    """To look into RocksDB leaves nothing in the store."""
    store = golden.unpack("double", tmp_path)
    before = tree(store)
    verb, *options = run
    assert json.loads(call(verb, store, *options, "--dry-run", "--json").stdout)["ok"]
    assert tree(store) == before


@pytest.mark.golden
def test_a_rebuild_is_foretold(store: Path) -> None:
    """The estimates are near what the rebuild then does, and the folders are those that it replaces."""
    config = ["--set", f"maxHashSlotNum={golden.INDEX_SLOTS}", "--set", f"maxIndexNum={golden.INDEX_ITEMS}"]
    reported: dict[str, Any] = json.loads(call("rebuild", store, *config, "--dry-run", "--json").stdout)
    report = reput.rebuild(store, spark=False, config=stores.GOLDEN)
    assert reported["built"] == report.built == ["queue", "index"]
    assert reported["kinds"] == ["file"]
    assert 0.5 < reported["queue_entries"] / report.queue_entries < 2
    assert 0.3 < reported["index_items"] / report.index_items < 3
    replaced = {one["folder"]: one["files"] for one in reported["replaced"]}
    assert replaced.keys() == {"consumequeue", "index"}
    assert replaced["index"] == len(list((golden.shared("basic") / "index").iterdir()))
    assert 0 < reported["bytes_needed"] < reported["bytes_free"]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["json", "lmq-rocksdb", "index-rocksdb"])
def test_estimates_counted_the_zeros_of_the_last_file(name: str, tmp_path: Path) -> None:
    """Counts are near those of the rebuild also if the last file is full of written zeros.

    Light queues have entries, and messages that are rolled back have none.
    """
    store = golden.unpack(name, tmp_path)
    for path in (store / "commitlog").iterdir():
        path.write_bytes(path.read_bytes())
    config = ["--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}"]
    reported: dict[str, Any] = json.loads(call("rebuild", store, *config, "--dry-run", "--json").stdout)
    report = reput.rebuild(store, spark=False, config=reput.StoreConfig(mapped_file_size_consume_queue=6000))
    assert reported["log_bytes"] == pytest.approx(report.log_max_offset - report.log_min_offset, rel=0.01)
    assert reported["messages"] == pytest.approx(report.messages, rel=0.1)
    assert reported["queue_entries"] == pytest.approx(report.queue_entries, rel=0.1)
    assert reported["index_items"] == pytest.approx(report.index_items, rel=0.1)
    assert reported["index_entries"] == pytest.approx(report.index_entries, rel=0.1)


@pytest.mark.golden
def test_a_deletion_is_foretold(store: Path) -> None:
    """The queues and folders that a dry run names are gone after the deletion."""
    reported = json.loads(call("delete", store, "-t", "orders", "--dry-run", "--json").stdout)
    done = json.loads(call("delete", store, "-t", "orders", "--json").stdout)
    assert reported["queues"] == done["queues"]
    assert reported["entries"] > 0
    assert reported["removed"]
    assert not [one for one in reported["removed"] if (store / one["folder"]).exists()]


@pytest.mark.golden
def test_a_dry_deletion_counts_the_entries_of_queues_of_batches(tmp_path: Path) -> None:
    """A queue of batches has an entry for each batch, and the name of such a topic is among those that there are."""
    store = golden.unpack("batch", tmp_path)
    info = next(one for one in reput.info(store, config=stores.GOLDEN).topics if one.topic == "batches")
    reported = json.loads(call("delete", store, "-t", "batches", "--dry-run", "--json").stdout)
    assert reported["entries"] == info.entries > 0
    one = json.loads(call("delete", store, "-t", "batches", "-q", "2", "--dry-run", "--json").stdout)
    assert 0 < one["entries"] < reported["entries"]
    shown = call("delete", store, "-t", "batches", "--dry-run").stdout
    assert shown.startswith(f"would delete 4 queues of topic 'batches', {reported['entries']:,} entries: 0, 1, 2, 3")
    assert "Near it: batches" in str(call("delete", store, "-t", "batch", "--dry-run").exception)


@pytest.mark.golden
def test_delete_quotes_the_topic(tmp_path: Path) -> None:
    """A topic that is called batches does not read as the kind of its queues."""
    store = golden.unpack("batch", tmp_path)
    assert call("delete", store, "-t", "batches").stdout == "deleted 4 queues of topic 'batches': 0, 1, 2, 3\n"


def refused(error: type[Exception], store: Path, *run: str) -> str:
    """The error of a run, and of the same run as a dry one: they must be the same."""
    verb, *options = run
    engine = [] if verb == "delete" else ["--no-spark"]
    before = tree(store)
    dry = call(verb, store, *options, *engine, "--dry-run").exception
    assert tree(store) == before
    assert type(dry) is error, dry
    real = call(verb, store, *options, *engine).exception
    assert type(real) is error, real
    assert str(dry) == str(real)
    return str(dry)


@pytest.mark.golden
@pytest.mark.parametrize("verb", [("rebuild",), ("convert", "--to", "rocksdb"), ("delete", "-t", "orders")], ids=repr)
def test_what_is_refused_is_refused_dry_as_well(verb: tuple[str, ...], store: Path, tmp_path: Path) -> None:
    """No store, a live owner, and links for folders: the same error, and so the same exit code."""
    refused(NotAStoreError, tmp_path / "nowhere", *verb)
    with writing(store):
        refused(StoreLockedError, store, *verb)
    shutil.rmtree(store / paths.REPUT)
    (tmp_path / "elsewhere").mkdir()
    (store / paths.REPUT).symlink_to(tmp_path / "elsewhere")
    refused(AccessError, store, *verb)


@pytest.mark.golden
def test_refusals_of_one_verb(store: Path) -> None:
    """A topic that is not there, a source that is not there, and a wrong size of files."""
    assert "Near it: orders" in refused(ConfigError, store, "delete", "-t", "order")
    assert "no queue 77" in refused(ConfigError, store, "delete", "-t", "orders", "-q", "77")
    assert "no other kind" in refused(ConfigError, store, "convert", "--to", "file", "--source", "queues")


@pytest.mark.golden
def test_too_little_room_is_a_warning(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run warns if the disk has less space than the job needs."""
    monkeypatch.setattr("reput.files.disk_space.free_bytes", lambda _: 1000)
    done = call("rebuild", store, "--dry-run")
    assert done.return_value == 0
    assert "1000 are free" in done.stderr
