"""Commands on stores of brokers with switches, damaged or not: what they say is true, and names what helps."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.cli.main import run
from support import golden
from support.search import takes_long

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Done(NamedTuple):
    """The end of a command."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return a function that runs a command in this process."""

    def called(*arguments: object) -> Done:
        return Done(run([str(argument) for argument in arguments]), *capsys.readouterr())

    return called


def no_manifest(folder: Path) -> None:
    """Remove the MANIFEST of a database, as a copy in part lacks it."""
    for path in folder.glob("MANIFEST-*"):
        path.unlink()


def test_a_broker_conf_of_pending_switches_alone_was_called_none(call: Callable[..., Done], tmp_path: Path) -> None:
    """Switches of a broker that reput need not be given are no reason to ask whether the file is a broker.conf."""
    store, path = golden.unpack("pending-rocksdb", tmp_path), tmp_path / "broker.conf"
    path.write_text("timerRocksDBEnable=true\ntransRocksDBEnable=true\n")
    done = call("info", store, "--config", path)
    assert (done.exit_code, done.stderr) == (0, "")
    path.write_text("server.port=80\n")
    assert "is it a broker.conf?" in call("info", store, "--config", path).stderr


@pytest.mark.parametrize("table", ["topics", "consumerOffsets"])
def test_a_rebuild_was_advised_against_damaged_metadata(table: str, call: Callable[..., Done], tmp_path: Path) -> None:
    """Metadata is in no log: check advises no rebuild, and a rebuild warns of what it goes on without, once."""
    store = golden.unpack("config-v1", tmp_path)
    place = store / "config" / table
    no_manifest(place)
    done = call("check", store, "--no-spark", "--quiet")
    assert done.exit_code == 1
    assert "do not rebuild" in done.stdout
    assert "If they are lost: put a copy in its place" in done.stdout
    done = call("rebuild", store, "--no-spark")
    warnings = [line for line in done.stderr.splitlines() if str(place) in line]
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in warnings] == ["warning"]


def test_a_rebuild_said_its_advice_twice(call: Callable[..., Done], tmp_path: Path) -> None:
    """Several damaged databases of metadata are one warning with one remedy; old queues have none, as they are built.

    A dry run has the same warning of metadata.
    """
    store = golden.unpack("config-v1", tmp_path)
    places = [store / "config" / "topics", store / "config" / "consumerOffsets"]
    for folder in (*places, store / "consumequeue"):
        no_manifest(folder)
    dry = call("rebuild", store, "--no-spark", "--dry-run", "--quiet")
    done = call("rebuild", store, "--no-spark", "--quiet")
    assert (dry.exit_code, done.exit_code) == (0, 0)
    for shown in (dry, done):
        (warning,) = [line for line in shown.stderr.splitlines() if str(places[0]) in line]
        assert str(places[1]) in warning
        assert warning.startswith("warning: ")
        assert shown.stderr.count("copy the folder again") == 1
    (old_queues,) = [line for line in done.stderr.splitlines() if "the old queues cannot be read" in line]
    assert "begin again at 0" in old_queues
    assert "reput rebuild" not in done.stderr


@pytest.mark.parametrize("name", ["consumerOffset.json", "topics.json"])
@pytest.mark.parametrize("data", [b"", b"{oops", b"\xff\xfe"])
def test_info_said_nothing_of_damaged_json(name: str, data: bytes, call: Callable[..., Done], tmp_path: Path) -> None:
    """A file that is empty or cut is named, with the backup that is read; without a backup it is damage, if cut."""
    store = golden.unpack("json", tmp_path)
    path = store / "config" / name
    backup = path.with_name(f"{name}.bak")
    shutil.copy(path, backup)
    path.write_bytes(data)
    done = call("info", store)
    assert done.exit_code == 0
    assert f"note: {path}: " in done.stderr
    assert str(backup) in done.stderr
    found = json.loads(call("check", store, "--no-spark", "--json").stdout)
    assert found["sound"]
    assert [one["file"] for one in found["findings"] if one["rule"] == "metadata-from-backup"] == [str(path)]

    backup.unlink()
    done = call("info", store)
    assert f"{path}: " in done.stderr
    assert done.exit_code == (1 if data else 0)


def test_progress_named_a_database_whose_offsets_did_not_count(call: Callable[..., Done], tmp_path: Path) -> None:
    """Offsets that a broker takes in from JSON are not called those of the database that they replace."""
    store = golden.unpack("config-v1", tmp_path)
    version = {"counter": 9, "stateVersion": 0, "timestamp": 1}
    newer = {"dataVersion": version, "offsetTable": {"orders@billing": {"0": 5}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(newer))
    done = call("progress", store, "-g", "billing")
    assert done.exit_code == 0
    assert "consumerOffset.json: its data version 9 is above" in done.stderr
    assert "note: offsets of" not in done.stderr


def test_dump_named_a_remedy_that_does_not_help(call: Callable[..., Done], tmp_path: Path) -> None:
    """Without IndexFiles by configuration a rebuild makes none; an empty database has no topic to name."""
    done = call("dump", "index", golden.unpack("index-rocksdb", tmp_path))
    assert done.exit_code == 2
    assert "the index by key is in" in done.stderr
    assert "`reput convert --index both`" in done.stderr
    done = call("dump", "queue", golden.unpack("config-v1-killed", tmp_path), "-t", "orders")
    assert done.exit_code == 2
    assert "no queue has an entry, as after a kill before the first flush" in done.stderr


def test_pending_timers_of_damaged_files_were_ok_in_json(call: Callable[..., Done], tmp_path: Path) -> None:
    """The last line of JSON has `ok` as the exit code has it, and the damage; no text says that there are no timers."""
    store = golden.unpack("pending", tmp_path)
    (store / "timerwheel").write_bytes(bytes(1000))
    done = call("pending", "timers", store, "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, last["ok"]) == (1, False)
    assert [text.partition(": ")[0] for text in last["damage"]] == [str(store / "timerwheel")]
    done = call("pending", "timers", store)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "note: no timers could be read" in done.stderr

    other = golden.unpack("pending-rocksdb", tmp_path)
    (other / "rocksdbstore" / "CURRENT").unlink()
    done = call("pending", "transactions", other)
    assert done.exit_code == 1
    assert done.stderr.count("damage: ") == 1


@pytest.mark.parametrize(
    "words", [("progress", "-g", "billing"), ("offset", "-t", "orders"), ("lite",), ("pending", "timers")]
)
def test_json_was_ok_where_the_exit_code_was_1(
    words: tuple[str, ...], call: Callable[..., Done], tmp_path: Path
) -> None:
    """With queues that cannot be read, the last line has `ok` false and the damage, beside what the log gave."""
    store = golden.unpack("separate", tmp_path)
    (store / "consumequeue_rocksdb" / "CURRENT").unlink()
    verb = 2 if words[0] == "pending" else 1
    done = call(*words[:verb], store, *words[verb:], "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, last["ok"]) == (1, False)
    assert [text.partition(": ")[0] for text in last["damage"]] == [str(store / "consumequeue_rocksdb")]


def test_a_dry_run_of_a_conversion_said_nothing_of_offsets(call: Callable[..., Done], tmp_path: Path) -> None:
    """Offsets that a broker with the new settings would not take in are named before the conversion, too."""
    done = call("convert", golden.unpack("json", tmp_path), "--to", "rocksdb", "--no-spark", "--dry-run")
    assert done.exit_code == 0
    assert "does not take these in: their data version is 0" in done.stderr


@pytest.mark.golden
@pytest.mark.parametrize(
    "name",
    [
        "separate",
        *(
            pytest.param(name, marks=takes_long)
            for name in (
                "config-v1",
                "config-v1-killed",
                "config-v2",
                "lmq-rocksdb",
                "index-rocksdb",
                "pending-rocksdb",
            )
        ),
    ],
)
def test_commands_that_read_leave_every_file_as_it_was(name: str, call: Callable[..., Done], tmp_path: Path) -> None:
    """No name, byte, time or mode of a store changes, whatever is read from it."""
    store = golden.unpack(name, tmp_path)

    def state() -> dict[Path, tuple[bytes, int, int]]:
        return {
            path: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns, path.stat().st_mode)
            for path in [store, *store.rglob("*")]
        }

    before = state()
    for words in (
        "info", "check --no-spark", "progress", "lite", "diff", "pending timers", "pending transactions", "pending pop",
        "get -t orders -c 1", "query -t orders --key k1", "offset -t orders", "dump log -c 1", "dump queue -c 1",
        "dump index -c 1", "rebuild --dry-run", "convert --to both --dry-run",
    ):  # fmt: skip
        verb, *options = words.split()
        nested = [options.pop(0)] if verb in {"dump", "pending"} else []
        assert call(verb, *nested, store, *options).exit_code in {0, 2}, words
        assert state() == before, words


def test_reads_were_silent_about_settings_that_hide_light_queues(call: Callable[..., Done], tmp_path: Path) -> None:
    """A read with settings that place light queues elsewhere says what `info` says, also if it then finds no queue."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    topic = next(
        one["topic"] for one in json.loads(call("info", store, "--json").stdout)["topics"] if "%LMQ%" in one["topic"]
    )
    hiding = ("--set", "rocksdbCQDoubleWriteEnable=false")
    (note,) = [line for line in call("info", store, *hiding).stderr.splitlines() if "does not see them" in line]
    for command in (("get", store, "-t", topic), ("get", store, "-t", "orders"), ("offset", store, "-t", topic)):
        assert "does not see them" not in call(*command).stderr
        assert call(*command, *hiding).stderr.splitlines().count(note) == 1


def test_a_rebuild_was_advised_that_builds_nothing(call: Callable[..., Done], tmp_path: Path) -> None:
    """Without an index by the settings, info calls none out of date, and a rebuild says that it builds nothing."""
    store = golden.unpack("json", tmp_path)
    shutil.rmtree(store / "index")
    off = ("--set", "indexFileWriteEnable=false")
    done = call("info", store, *off)
    assert done.exit_code == 0
    assert "note: no index by key is kept with these settings" in done.stderr
    assert "out of date: index" not in done.stderr
    for dry in ((), ("--dry-run",)):
        done = call("rebuild", store, "--only", "index", "--no-spark", *off, *dry)
        assert (done.exit_code, done.stdout) == (0, "would build nothing\n" if dry else "built nothing\n")
        assert "note: no index by key is kept with these settings" in done.stderr
        assert "None is built" in done.stderr
        assert "built by key: \n" not in done.stderr
    assert not (store / "index").exists()
    assert not [path for path in (store / "reput").iterdir() if path.name.startswith("staging")]
    done = call("rebuild", store, "--only", "index", "--no-spark", "--set", "messageIndexEnable=false")
    assert (done.exit_code, done.stdout) == (0, "built nothing\n")
    assert call("check", store, "--no-spark", *off).exit_code == 0


def test_a_conversion_said_nothing_of_the_size_of_its_files(call: Callable[..., Done], tmp_path: Path) -> None:
    """IndexFiles of RocketMQ's default sizes are named with their bytes and the settings, where none shows others."""
    store = golden.unpack("index-rocksdb", tmp_path)
    done = call("convert", store, "--index", "both", "--no-spark", "--dry-run")
    assert done.exit_code == 0
    assert "note: each IndexFile takes 400.5 MiB, with 5000000 slots and 20000000 items" in done.stderr
    assert "--set maxHashSlotNum" in done.stderr
    given = ("--set", "maxHashSlotNum=500", "--set", "maxIndexNum=2000")
    done = call("convert", store, "--index", "both", "--no-spark", *given)
    assert "each IndexFile takes" not in done.stderr
    assert call("check", store, "--no-spark").exit_code == 0
