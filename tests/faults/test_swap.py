"""The swap beside a system that refuses: what an error says of the indexes is true, and what is durable when."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.disk.layout import find_store
from reput.store.owner import swap
from reput.store.owner.owner import own_store
from support import stores
from support.faults import DONE, FAILED
from support.search import calls

if TYPE_CHECKING:
    from faults.conftest import Victim
    from support.faults import FaultyRebuilds

NEW_ARE_LIVE = "The new indexes are live"
UNDER_WAY = "The swap to the new indexes is under way"
MOST_CALLS = 300


@pytest.mark.parametrize("topics", [(), ("a", "b")])
@pytest.mark.parametrize("function", ["rename", "sync_path", "sync", "remove_file", "remove_tree", "write_whole"])
def test_errors_tell_which_indexes_are_live(
    function: str, topics: tuple[str, ...], original: Victim, tmp_path: Path, faulty: FaultyRebuilds
) -> None:
    """Refused at the k-th call, for every k: the new indexes are live exactly where the error says so."""
    for k in calls(MOST_CALLS):
        store = stores.copy(original.store, tmp_path / f"{k}")
        before = stores.indexes(store)
        # With salvage no check of ours follows, whose own calls would count.
        outcome = faulty.run(store, function, at=k, what="EIO", split_mb=0.0015, topics=topics, salvage=True)
        if outcome.how == DONE and outcome.calls < k:
            assert k > 1, f"{function} is never called"
            return
        if outcome.how == FAILED:
            assert outcome.error == "ReputError"
            assert UNDER_WAY not in outcome.text
            assert (stores.indexes(store) == before) == (NEW_ARE_LIVE not in outcome.text), outcome
        stores.rebuild(store)
        assert stores.indexes(store) == original.new
        assert stores.leftovers(store) == []
        shutil.rmtree(store)
    pytest.fail(f"more than {MOST_CALLS} calls of {function}")


def test_a_swap_that_cannot_be_undone_says_so(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap whose old parts cannot be put back either ends with an error: the next command finishes the swap."""
    true, calls = fs.rename, 0

    def refuse_all_after_two(source: Path | str, target: Path | str) -> None:
        nonlocal calls
        calls += (victim.store / paths.REPUT / own.INTENT_NAME).exists()
        if calls > 2:
            with fs.errors_named(source, f"rename to {target}"):
                raise OSError(5, os.strerror(5))
        true(source, target)

    monkeypatch.setattr(fs, "rename", refuse_all_after_two)
    with pytest.raises(fs.ReputError, match=UNDER_WAY):
        stores.rebuild(victim.store)
    monkeypatch.undo()
    report = stores.rebuild(victim.store)
    assert any("finished that swap" in note for note in report.notes)
    assert stores.indexes(victim.store) == victim.new


def test_a_swap_whose_undoing_cannot_be_synced_keeps_its_intent(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may have the renames of the swap, and not those back: the next command finishes the swap."""
    intent, true = victim.store / paths.REPUT / own.INTENT_NAME, fs.sync_path

    def refuse(path: Path | str) -> None:
        if intent.exists():
            with fs.errors_named(path, "sync"):
                raise OSError(5, os.strerror(5))
        true(path)

    monkeypatch.setattr(fs, "sync_path", refuse)
    with pytest.raises(fs.ReputError, match=UNDER_WAY):
        stores.rebuild(victim.store)
    monkeypatch.undo()
    assert intent.exists()
    report = stores.rebuild(victim.store)
    assert any("finished that swap" in note for note in report.notes)
    assert stores.indexes(victim.store) == victim.new


def test_an_interrupt_in_the_swap_puts_the_old_indexes_back(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two renames leaves the old indexes, as the command line then says."""
    true, calls = fs.rename, 0

    def interrupted(source: Path | str, target: Path | str) -> None:
        nonlocal calls
        calls += (victim.store / paths.REPUT / own.INTENT_NAME).exists()
        if calls == 4:
            calls += 1
            raise KeyboardInterrupt
        true(source, target)

    monkeypatch.setattr(fs, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.old
    assert stores.leftovers(victim.store) == []


class Calls:
    """The calls that make things durable or move them, in order, as (function, path inside the store)."""

    def __init__(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.made: list[tuple[str, str]] = []
        for name in ("sync_path", "sync_tree", "write_at", "rename", "remove_file"):
            monkeypatch.setattr(fs, name, self._recorded(name, getattr(fs, name)))

    def _recorded(self, name: str, true: Any) -> Any:
        def call(path: Path | str, *arguments: Any, **named: Any) -> Any:
            inside = os.path.relpath(path, self.store)
            if name == "rename":
                self.made.append(("to", os.path.relpath(arguments[0], self.store)))
            self.made.append((name, inside))
            return true(path, *arguments, **named)

        return call

    def first(self, name: str, inside: str) -> int:
        """Number of the first such call."""
        return self.made.index((name, inside))


@pytest.mark.parametrize("options", [{}, {"only": "queue"}, {"only": "index"}, {"topics": ["a"]}])
def test_the_log_is_durable_before_the_checkpoint_that_says_so(
    options: dict[str, Any], victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log files and their folder are synced before the checkpoint is staged, and that before the swap begins.

    The log lies elsewhere, reached by a link, so that no sync of the store's file system reaches it.
    """
    folder = tmp_path / "other disk"
    (victim.store / paths.COMMIT_LOG).rename(folder)
    (victim.store / paths.COMMIT_LOG).symlink_to(folder)
    calls = Calls(victim.store, monkeypatch)
    stores.rebuild(victim.store, **options)
    names = [path.name for path in folder.iterdir()]
    staged = next(n for n, (name, path) in enumerate(calls.made) if name == "write_at" and "checkpoint" in path)
    synced_log = [calls.first("sync_path", f"commitlog/{name}") for name in names] + [
        calls.first("sync_path", "commitlog")
    ]
    synced_staging = next(
        n for n, (name, path) in enumerate(calls.made) if (name, path[:14]) == ("sync_tree", "reput/staging-")
    )
    intent = calls.first("to", "reput/intent")
    live = calls.first("to", "checkpoint")
    assert max(synced_log) < staged < synced_staging < intent < live


def test_renames_are_durable_on_both_sides_before_the_intent_goes(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last rename and the end of the intent all folders that a name left or came to are synced."""
    calls = Calls(victim.store, monkeypatch)
    stores.rebuild(victim.store, topics=["a"])
    gone = calls.first("remove_file", "reput/intent")
    last = max(n for n, (name, _) in enumerate(calls.made[:gone]) if name == "rename")
    synced = {path for name, path in calls.made[last:gone] if name == "sync_path"}
    epoch = next(path.split("-")[1].split("/")[0] for _, path in calls.made if path.startswith("reput/staging-"))
    both = {f"reput/{name}-{epoch}{inside}" for name in ("staging", "aside") for inside in ("", "/consumequeue")}
    assert both | {".", "consumequeue", "reput"} <= synced
    assert ("sync_path", "reput") in calls.made[gone:]


def test_an_undone_swap_is_durable_before_the_intent_goes(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old parts that were put back are synced, then the intent is removed and that is synced, then the new parts go."""
    calls = Calls(victim.store, monkeypatch)
    true, seen = swap._swap_part, 0

    def refused(*arguments: Any) -> None:
        nonlocal seen
        seen += 1
        true(*arguments)
        if seen == 2:
            with fs.errors_named("somewhere", "swap"):
                raise OSError(5, os.strerror(5))

    monkeypatch.setattr(swap, "_swap_part", refused)
    with pytest.raises(fs.ReputError):
        stores.rebuild(victim.store)
    last = max(n for n, (name, _) in enumerate(calls.made) if name == "rename")
    gone = calls.first("remove_file", "reput/intent")
    assert last < gone
    assert {".", "reput"} <= {path for name, path in calls.made[last:gone] if name == "sync_path"}
    assert ("sync_path", "reput") in calls.made[gone:]
    assert stores.indexes(victim.store) == victim.old


def test_an_intent_that_a_power_cut_left_in_part_goes_with_the_next_owner(victim: Victim) -> None:
    """A power cut took the staged indexes, and left the file that was to become the intent: it stayed for ever."""
    left = victim.store / paths.REPUT / f"{own.INTENT_NAME}.tmp"
    left.write_bytes(b'{\n "version": 1')
    with own_store(find_store(victim.store, stores.SMALL)) as owned:
        assert owned.notes == [f"removed what an earlier job had left: {left.name}"]
    assert stores.leftovers(victim.store) == []
    assert stores.indexes(victim.store) == victim.old
