"""Parts that the verbs for messages share: notes while a store is opened, and times as people write them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.cli.shared import opened
from reput.cli.shared.opened import time_ms
from reput.config import StoreConfig
from reput.times import now_ms
from support import golden

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("verb", [("get", "-q", "0"), ("query", "--key", "k"), ("offset",), ("progress",)])
def test_a_long_look_at_the_log_is_said(verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose indexes lag can be read all the same, and a note explains a long wait."""
    store = reput.MessageStore.open(tmp_path, StoreConfig(mapped_file_size_commit_log=1 << 16), create=True)
    store.put_message(reput.Message("t", b"body", keys="k"))
    store.close(reput=False)
    monkeypatch.setattr(opened, "_SLOW_S", -1.0)
    name, *options = verb
    done = CliRunner().invoke(cli, [name, str(tmp_path), "-t", "t", *options], standalone_mode=False)
    assert done.exception is None
    assert "of log without indexes took" in done.stderr
    monkeypatch.undo()
    assert "took" not in CliRunner().invoke(cli, [name, str(tmp_path), "-t", "t", *options]).stderr


@pytest.mark.golden
def test_nothing_to_decode_is_no_long_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow first opening because of compilation is not blamed on indexes that are complete."""
    monkeypatch.setattr(opened, "_SLOW_S", -1.0)
    done = CliRunner().invoke(cli, ["get", str(golden.unpack("ext", tmp_path)), "-t", "orders", "-q", "0", "-c", "1"])
    assert done.exit_code == 0
    assert "took" not in done.stderr


@pytest.mark.golden
def test_what_opening_finds_is_said(tmp_path: Path) -> None:
    """A store of RocketMQ without its indexes gives its messages all the same; a torn end is reported."""
    store = golden.unpack("basic", tmp_path)
    for name in ("consumequeue", "index"):
        (store / name).rename(tmp_path / name)
    last = max((store / "commitlog").iterdir())
    with reput.MessageStore.open(store, read_only=True) as found:
        end = found.view.follower.offset
    with last.open("r+b") as file:
        file.seek(end - int(last.name))
        file.write(b"\0\0\1\0torn")
    done = CliRunner().invoke(cli, ["get", str(store), "-t", "payments", "-q", "3"], standalone_mode=False)
    assert len(done.stdout.splitlines()) == 32
    assert f"note: the log ends at {end}" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 1785427200000 ", 1785427200000),
        ("2026-07-30T16:00:00Z", 1785427200000),
        ("2026-07-30T18:00:00.250+02:00", 1785427200250),
        ("soon", None),
        ("9" * 19, None),
        ("9" * 30, None),
        ("-1", None),
        ("", None),
    ],
)
def test_times(text: str, expected: int | None) -> None:
    """A time is milliseconds or a date, and nothing else."""
    assert time_ms(text) == expected


def test_times_without_a_zone_are_local() -> None:
    """A date without a zone means this machine's, and `now` is now."""
    assert time_ms("2026-07-30T18:00") == datetime(2026, 7, 30, 18).astimezone().timestamp() * 1000
    now = time_ms("now")
    assert now is not None
    assert 0 <= now_ms() - now < 60_000
