"""Commands that look at a store while a program or a broker goes on with it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.formats import paths
from support import stores
from support.checked import assert_sound
from support.opened import CONFIG, put
from support.records import LogBuilder

SIZE = f"mappedFileSizeCommitLog={CONFIG.mapped_file_size_commit_log}"


def call(*arguments: object) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(cli, [*map(str, arguments), "--set", SIZE], standalone_mode=False)


def shown(done: Result) -> list[int]:
    """The log offsets of the records that a call shows."""
    assert done.exception is None, done.exception
    return [json.loads(line)["physical_offset"] for line in done.stdout.splitlines()]


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, happens: Callable[[], object]) -> None:
    """Let something happen right before each call of the function of that name."""
    module, _, function = name.rpartition(".")
    real = getattr(__import__(module, fromlist=[function]), function)

    def called(*arguments: Any, **named: Any) -> Any:
        happens()
        return real(*arguments, **named)

    monkeypatch.setattr(name, called)


def test_zeros_that_a_writer_fills_meanwhile_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dump log` beside a writer shows confirmed records, and does not search after them."""
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        placed = put(store, 20)
        meanwhile(monkeypatch, "reput.log.read.reader.find_record", lambda: put(store, 2))
        for options, most in ((), None), (("--physical-offset", -2), 2):
            done = call("dump", "log", tmp_path / "u", *options, "--json")
            assert (done.return_value, done.stderr) == (0, "")
            assert shown(done) == (placed if most is None else placed[-most:])
    monkeypatch.undo()
    assert_sound(tmp_path / "u", CONFIG)


def test_dump_log_beside_a_writer_that_never_rests(tmp_path: Path) -> None:
    """However often one looks, a sound log has no damage, and --physical-offset -3 shows three records."""
    ended = threading.Event()
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        put(store, 10)

        def work() -> None:
            while not ended.wait(0.002):
                put(store, 1)

        writer = threading.Thread(target=work)
        writer.start()
        try:
            for _ in range(10):
                for options in ((), ("--physical-offset", -3)):
                    done = call("dump", "log", tmp_path / "u", *options, "--json")
                    assert (done.return_value, done.stderr) == (0, "")
                    assert not options or len(shown(done)) == 3
        finally:
            ended.set()
            writer.join()
    assert_sound(tmp_path / "u", CONFIG)


def test_damage_in_front_of_what_is_confirmed_is_told_beside_a_writer(tmp_path: Path) -> None:
    """A writer's log with bad bytes below the confirmed offset is damaged, and all commands say so in one sentence."""
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        placed, confirmed = put(store, 20), store.view.confirmed()
        with (tmp_path / "u" / paths.COMMIT_LOG / f"{0:020}").open("r+b") as file:
            file.seek(placed[-1])
            kept = file.read(confirmed - placed[-1])
            file.seek(placed[-1])
            file.write(bytes(len(kept)))
            file.flush()
            done = call("dump", "log", tmp_path / "u", "--json")
            found, checked = (json.loads(call(name, tmp_path / "u", "--json").stdout) for name in ("info", "check"))
            file.seek(placed[-1])
            file.write(kept)
        assert (done.return_value, shown(done)) == (1, placed[:-1])
        sentence = f"(log offset {placed[-1]}): nothing written, though the log is confirmed up to {confirmed}"
        assert sentence in done.stderr
        assert [text for text in found["damage"] if sentence in text]
        assert [
            one
            for one in checked["findings"]
            if one["rule"] == "log-record" and sentence[1:].replace("):", ":") == one["detail"]
        ]
    assert_sound(tmp_path / "u", CONFIG)


@pytest.mark.parametrize("fills", [True, False])
def test_zeros_in_front_of_a_record_are_looked_at_twice(
    fills: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros that a broker fills meanwhile do not end the walk; zeros that stay are damage."""
    log = LogBuilder(file_size=CONFIG.mapped_file_size_commit_log)
    for n in range(20):
        log.message("t", body=b"%d" % n)
    store = log.write(tmp_path / "store", preallocated=True)
    file = store / paths.COMMIT_LOG / f"{0:020}"
    whole, placed = file.read_bytes(), [one.record.physical_offset for one in log.placed]
    later = placed[15] if fills else placed[12]

    def without(begin: int, end: int) -> bytes:
        return whole[:begin] + bytes(end - begin) + whole[end:]

    file.write_bytes(without(placed[10], len(whole)))
    meanwhile(
        monkeypatch,
        "reput.log.read.reader.find_record",
        lambda: file.write_bytes(without(later, len(whole)) if fills else without(placed[10], later)),
    )
    done = call("dump", "log", store, "--json")
    if fills:
        assert (done.return_value, done.stderr) == (0, "")
        assert shown(done) == placed[:11]
    else:
        assert shown(done) == placed[:10]
        assert done.return_value == 1
        assert f"the next record is at log offset {placed[12]}" in done.stderr


def test_the_last_messages_beside_a_writer_are_as_many_as_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number from the end takes the end once: what a writer puts while a command looks is not among the last N."""
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        for queue_id in (0, 1):
            put(store, 10, queue_id=queue_id)

        def more() -> None:
            for queue_id in (0, 1):
                put(store, 5, queue_id=queue_id)

        meanwhile(monkeypatch, "reput.log.read.reader.last_records", more)
        meanwhile(monkeypatch, "reput.cli.get.run.keep_last", more)
        for chosen in ((), ("-q", 1)):
            done = call("get", tmp_path / "u", "-t", "t", *chosen, "-o", -4, "--json")
            assert (done.return_value, len(done.stdout.splitlines())) == (0, 4)
            assert done.stderr == ""
        assert len(shown(call("dump", "log", tmp_path / "u", "--physical-offset", -4, "--json"))) == 4
    monkeypatch.undo()
    assert_sound(tmp_path / "u", CONFIG)


def test_the_last_messages_of_an_empty_queue(tmp_path: Path) -> None:
    """`get -o -N` of a queue without messages says that it has none."""
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        put(store, 1)
    empty = tmp_path / "u" / paths.CONSUME_QUEUE / "e" / "0" / f"{0:020}"
    empty.parent.mkdir(parents=True)
    empty.write_bytes(bytes(CONFIG.mapped_file_size_consume_queue))
    done = call("get", tmp_path / "u", "-t", "e", "-o", -4)
    assert (done.return_value, done.stdout) == (0, "")
    assert done.stderr.endswith("note: the queue holds no message (NO_MESSAGE_IN_QUEUE)\n")


def test_diff_says_what_a_writer_has_not_indexed_yet(tmp_path: Path) -> None:
    """Messages that no queue has yet are not compared, and a note says who holds the store and how many they are."""
    with reput.MessageStore.open(tmp_path / "u", CONFIG, create=True) as store:
        put(store, 5)
    stores.copy(tmp_path / "u", tmp_path / "other")
    sizes = ("--set", f"mappedFileSizeConsumeQueue={CONFIG.mapped_file_size_consume_queue}")
    with reput.MessageStore.open(tmp_path / "u", CONFIG) as store:
        put(store, 3)
        done = call("diff", tmp_path / "u", tmp_path / "other", *sizes)
        reported = json.loads(call("diff", tmp_path / "other", tmp_path / "u", *sizes, "--json").stdout)
        confirmed = store.view.confirmed()
        note = (
            f"{tmp_path / 'u'}: a reput program that puts messages, process {os.getpid()} has this store open, and "
            f"only what the queues hold now is compared; its log is confirmed up to {confirmed}, and 3 messages wait "
            "for index entries"
        )
        assert done.return_value == 0
        assert f"note: {note}\n" in done.stderr
        assert "no difference" in done.stderr
        assert (reported["ok"], reported["notes"]) == (True, [note])
    done = call("diff", tmp_path / "u", tmp_path / "other", *sizes)
    assert (done.return_value, "note:" in done.stderr) == (1, False)
    assert_sound(tmp_path / "u", CONFIG)
