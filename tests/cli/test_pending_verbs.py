"""`reput pending` as people and programs call it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reput.cli.main import run
from reput.formats import paths
from reput.formats.pending.timer_log import FOLDER
from support import golden
from support.pending import DUE_MS, put, put_timer, unit_of, waiting_store, write_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with three timer messages in its wheel."""
    with waiting_store(tmp_path) as store:
        timers = [put_timer(store, DUE_MS + number * 1000, key=f"u{number}") for number in range(3)]
        put(store, "orders")
    write_wheel(tmp_path / "store", [unit_of(timer) for timer in timers])
    return tmp_path / "store"


def test_json_has_a_line_for_each_row_and_one_for_the_totals(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is a document; the last one counts all rows, also those that `-c` leaves out."""
    assert run(["pending", "timers", str(root), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(["pending", "timers", str(root), "--json", "-c", "1"]) == 0
    fewer = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [row["unique_key"] for row in rows[:-1]] == ["u0", "u1", "u2"]
    assert rows[-1] == {"ok": True, "total": 3, "topics": {"orders": {"verified": 3}}}
    assert fewer == [rows[0], rows[-1]]


def test_text_says_how_many_rows_are_left_out(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The totals are of all rows; a note says what `-c` shows."""
    assert run(["pending", "timers", str(root), "-c", "2"]) == 0
    said = capsys.readouterr()

    assert "orders\tverified\t3" in said.out
    assert "these are the first 2 of 3" in said.err


@pytest.mark.parametrize("verb", ["timers", "transactions", "pop"])
def test_a_store_without_such_work_says_so(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing waits: exit code 0, and a note."""
    with waiting_store(tmp_path) as store:
        put(store, "orders")

    assert run(["pending", verb, str(tmp_path / "store")]) == 0
    assert "note: there are no " in capsys.readouterr().err
    assert run(["pending", verb, str(tmp_path / "nowhere")]) == 2


def test_an_unknown_topic_or_group_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that the store does not have is refused as by `get`; a known one for which nothing waits is not."""
    for verb in ("timers", "transactions", "pop"):
        assert run(["pending", verb, str(root), "-t", "order"]) == 2
        assert f"error: {root}: no topic order. Near it: orders" in capsys.readouterr().err
        assert run(["pending", verb, str(root), "-t", "orders"]) == 0
    assert run(["pending", "timers", str(root), "-t", "orders", "--until", "0"]) == 0
    assert run(["pending", "pop", str(root), "-g", "nobody", "--json"]) == 2
    assert f"{root}: no group nobody has progress" in capsys.readouterr().err


def test_wrong_rows_and_damage_end_with_1(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A timer log that was cut is named on stderr; the other verbs still end with 0."""
    log = root / FOLDER / paths.offset_name(0)
    log.write_bytes(bytes(log.stat().st_size))

    assert run(["pending", "timers", str(root)]) == 1
    assert "damage: " in capsys.readouterr().err
    assert run(["info", str(root)]) == 0


@pytest.mark.golden
@pytest.mark.parametrize("name", ["pending", "pending-rocksdb"])
def test_nothing_is_left_in_the_store(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The views write nothing: no lock, no settings file, no change of a time."""
    store = golden.unpack(name, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    for verb in ("timers", "transactions", "pop"):
        assert run(["pending", verb, str(store)]) == 0

    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before
    assert "verified" in capsys.readouterr().out
