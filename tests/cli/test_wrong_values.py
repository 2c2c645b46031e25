"""Values of metadata that are not RocketMQ's, and databases of a newer layout, as commands name them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.cli.main import run
from reput.formats.config import metadata_v2
from reput.formats.config.metadata_v2 import CommittedKey, TableId
from reput.store.metadata.tables import Table
from support import golden
from support.metadata import database_with, metadata_of, progress_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GARBAGE = b"\xff\x00garbage"
BILLING = ("-g", "billing", "-t", "orders", "-q", "0")


class Done(NamedTuple):
    """The end of a command: its exit code, its data, and what it says."""

    exit_code: int
    stdout: str
    said: list[str]

    def of_kind(self, *kinds: str) -> list[str]:
        """The lines that begin so."""
        return [line for line in self.said if line.startswith(tuple(f"{kind}: " for kind in kinds))]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return a function that runs a command in this process."""

    def called(*arguments: object) -> Done:
        code = run([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return Done(code, found.out, found.err.splitlines())

    return called


def with_garbage(store: Path, table: Table) -> Path:
    """Put garbage in place of what `orders` has in a table of the database that counts; return its folder."""
    place = metadata_of(store).place(table)
    key = b"orders@billing" if table is Table.OFFSETS else b"orders"
    if place.name == metadata_v2.FOLDER:
        key = (
            metadata_v2.offset_key(TableId.OFFSETS, CommittedKey(b"billing", b"orders", 0))
            if table is Table.OFFSETS
            else metadata_v2.name_key(TableId.TOPICS, b"orders")
        )
    database_with(place, {key: GARBAGE}, store.parent / "logs")
    return place


@pytest.mark.parametrize("name", ["config-v1", "config-v2"])
def test_progress_called_garbage_in_offsets_fine(name: str, call: Callable[..., Done], tmp_path: Path) -> None:
    """Offsets that are not RocketMQ's are damage to progress alone, once, and the others are shown."""
    store = golden.unpack(name, tmp_path)
    others = [
        ("get", store, "-t", "orders", "-q", 0, "-o", 0, "-c", 3, "--json"),
        ("offset", store, "-t", "orders", "-q", 0),
        ("pending", "timers", store),
    ]
    sound = [call(*words) for words in others]
    place = with_garbage(store, Table.OFFSETS)
    done = call("progress", store)
    assert (done.exit_code, "billing" in done.stdout) == (1, True)
    (text,) = done.of_kind("damage")
    assert text.startswith(f"damage: {place}: ")
    assert "left out" in text
    assert [line for line in done.of_kind("note") if "left out" in line] == []
    for words in (("-g", "billing"), ()):
        done = call("progress", store, *words, "--json")
        found = json.loads(done.stdout)
        assert (done.exit_code, found["ok"], found["damage"]) == (1, False, [text.removeprefix("damage: ")])
        assert found["groups"]
    assert [call(*words) for words in others] == sound


@pytest.mark.parametrize("name", ["config-v1", "config-v2"])
def test_readers_called_garbage_in_topics_fine(name: str, call: Callable[..., Done], tmp_path: Path) -> None:
    """Topics that are not RocketMQ's are damage to every command that opens the store, once."""
    store = golden.unpack(name, tmp_path)
    commands = [
        ("get", store, "-t", "orders", "-q", 0, "-o", 0, "-c", 3, "--json"),
        ("query", store, "-t", "orders", "--key", "none"),
        ("offset", store, "-t", "orders", "-q", 0),
        ("lite", store),
        ("progress", store, *BILLING[:4]),
        ("pending", "timers", store),
        ("pending", "transactions", store),
        ("pending", "pop", store),
    ]
    sound = [call(*words) for words in commands]
    assert {done.exit_code for done in sound} == {0}
    place = with_garbage(store, Table.TOPICS)
    for words, before in zip(commands, sound, strict=True):
        done = call(*words)
        assert (done.exit_code, done.stdout) == (1, before.stdout), words
        assert [line.partition(": ")[0] for line in done.said if str(place) in line and "left out" in line] == [
            "damage"
        ], words
    assert json.loads(call("lite", store, "--json").stdout.splitlines()[-1])["ok"] is False


@pytest.mark.parametrize("table", [Table.TOPICS, Table.OFFSETS])
def test_info_check_and_a_rebuild_name_garbage_once(table: Table, call: Callable[..., Done], tmp_path: Path) -> None:
    """`info` and `check` have one damage, and a rebuild, which goes on without such values, has one warning."""
    store = golden.unpack("config-v1", tmp_path)
    place = with_garbage(store, table)
    done = call("info", store)
    assert (done.exit_code, len(done.of_kind("damage")), done.of_kind("note")) == (1, 1, [])
    done = call("check", store, "--no-spark", "--quiet")
    assert (done.exit_code, "metadata-value-wrong" in done.stdout) == (1, True)
    assert [line for line in done.said if str(place) in line] == []
    done = call("rebuild", store, "--no-spark", "--quiet")
    assert [line.partition(": ")[0] for line in done.said if str(place) in line] == ["warning"]


def test_lite_and_pending_called_garbage_in_offsets_fine(call: Callable[..., Done], tmp_path: Path) -> None:
    """Commands that read committed offsets name what is left out of them, in JSON too."""
    store = golden.unpack("config-v1", tmp_path)
    with_garbage(store, Table.OFFSETS)
    for words in (("lite",), ("pending", "transactions"), ("pending", "pop")):
        done = call(*words, store, "--json")
        assert (done.exit_code, len(done.of_kind("damage"))) == (1, 1), words
        assert json.loads(done.stdout.splitlines()[-1])["ok"] is False, words


@pytest.mark.parametrize("name", ["config-v1", "config-v2"])
def test_a_commit_replaces_garbage(name: str, call: Callable[..., Done], tmp_path: Path) -> None:
    """A change names the damage and exits 1; the committed offset takes the place of the garbage, and is read."""
    store = golden.unpack(name, tmp_path)
    with_garbage(store, Table.OFFSETS)
    done = call("progress", store, *BILLING, "--commit", 5, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["ok"], len(found["damage"])) == (1, False, 1)
    assert [change["after"] for change in found["changes"]] == [5]
    assert len(done.of_kind("damage")) == 1
    assert progress_of(store).query("billing", "orders", 0) == 5
    done = call("progress", store, *BILLING, "--commit", 6, "--json")
    assert (done.exit_code, json.loads(done.stdout)["ok"], done.of_kind("damage")) == (0, True, [])


def with_newer_keys(store: Path, tmp_path: Path) -> Path:
    """Put keys of a newer layout beside those of `config/rdb`; return its folder."""
    place = metadata_of(store).place(Table.OFFSETS)
    database_with(place, {b"\x02\x00" + bytes([number]): b"value" for number in range(1, 30)}, tmp_path / "logs")
    return place


def test_check_called_keys_of_a_newer_layout_a_backup(call: Callable[..., Done], tmp_path: Path) -> None:
    """Keys of a newer layout beside known ones have a rule of their own, once, and the store is sound."""
    store = golden.unpack("config-v2", tmp_path)
    place = with_newer_keys(store, tmp_path)
    done = call("check", store, "--no-spark", "--json")
    report = json.loads(done.stdout)
    (found,) = report["findings"]
    assert (done.exit_code, report["sound"]) == (0, True)
    assert [found[name] for name in ("rule", "severity", "file")] == ["metadata-newer", "note", str(place)]
    assert f"{place}: 29 keys of a layout that reput does not know" in found["detail"]
    assert [note for note in report["notes"] if "layout" in note] == []
    for words in (("info", store), ("get", store, "-t", "orders", "-q", 0, "-c", 1), ("progress", store)):
        done = call(*words)
        assert (done.exit_code, len([line for line in done.said if "29 keys" in line])) == (0, 1), words


@pytest.mark.parametrize(
    "change",
    [(*BILLING, "--commit", "5"), ("--clean-group", "billing"), ("--clone", "billing", "other")],
)
def test_progress_wrote_beside_keys_of_a_newer_layout(
    change: tuple[str, ...], call: Callable[..., Done], tmp_path: Path
) -> None:
    """A newer broker may read its own keys alone, so a change beside them is refused, and nothing changes."""
    store = golden.unpack("config-v2", tmp_path)
    place = with_newer_keys(store, tmp_path)
    before = call("progress", store, *BILLING)
    done = call("progress", store, *change)
    (text,) = done.of_kind("error")
    assert (done.exit_code, done.stdout) == (2, "")
    assert text.startswith(f"error: {place}: 29 keys of a layout that reput does not know")
    assert "Nothing was changed" in text
    assert "mqadmin" in text
    assert call("progress", store, *BILLING).stdout == before.stdout


def test_a_database_of_newer_keys_alone_was_named_three_times(call: Callable[..., Done], tmp_path: Path) -> None:
    """Commands that come upon a database of a newer broker alone name it once, and exit 1 as `info` and `check` do."""
    store = golden.unpack("config-v2", tmp_path)
    place = metadata_of(store).place(Table.OFFSETS)
    for path in place.iterdir():
        path.unlink()
    database_with(place, {b"\x02\x00\x01": b"value"}, tmp_path / "logs")
    words = f"{place}: 1 keys of a layout that reput does not know"
    for verb, kind in (("info", "damage"), ("progress", "error"), ("lite", "damage"), ("pending pop", "damage")):
        done = call(*verb.split(), store)
        (text,) = [line for line in done.said if words in line]
        assert (done.exit_code, text.partition(": ")[0]) == (1, kind), verb
    done = call("progress", store, *BILLING, "--commit", 5)
    (text,) = [line for line in done.said if words in line]
    assert (done.exit_code, text.partition(": ")[0]) == (1, "error")
    report = json.loads(call("check", store, "--no-spark", "--json").stdout)
    assert [(found["rule"], found["severity"]) for found in report["findings"]] == [("metadata-newer", "damage")]
    assert [note for note in report["notes"] if words in note] == []
