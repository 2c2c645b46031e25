"""Stores to measure on: written by the peer, then put back into the same state before every run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))

from peer import peer  # noqa: E402  the path to it is set one line up

INDEX_FOLDERS = ("consumequeue", "index")
READ_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class Case:
    """A store of `messages` messages in `queues` queues."""

    messages: int
    queues: int

    def __str__(self) -> str:
        """The name in progress lines and folder names."""
        return f"{self.messages}-in-{self.queues}"


@dataclass(frozen=True)
class Workload:
    """A store on disk that lacks its indexes, and the peer's note about how it was written."""

    case: Case
    store: Path
    checkpoint: bytes
    written: dict[str, Any]

    def reset(self) -> None:
        """The state in which every run finds it: closed cleanly, indexes lost, log in the page cache."""
        for name in (*INDEX_FOLDERS, "reput"):
            self.discard(self.store / name)
        (self.store / "abort").unlink(missing_ok=True)
        (self.store / "checkpoint").write_bytes(self.checkpoint)
        os.sync()  # what an earlier run left unwritten must not slow this one down
        self._read_log()

    def move_indexes(self, aside: Path) -> None:
        """Keep what a run built, out of the store, to compare with."""
        self.discard(aside)
        aside.mkdir()
        for name in INDEX_FOLDERS:
            (self.store / name).rename(aside / name)

    def discard(self, folder: Path) -> None:
        """Put a folder away until the case is over.

        For five minutes after a deletion ext4 looks at each deleted inode again before it gives out a new one: with
        10,000 queues deleted before every run, making their folders took 1.2 s in the first round and 4.8 s in the
        fourth, in the stores of both sides.
        """
        if folder.exists():
            self.discarded.mkdir(exist_ok=True)
            folder.rename(self.discarded / str(len(list(self.discarded.iterdir()))))

    @property
    def discarded(self) -> Path:
        """Return the folder where discarded folders wait for the end of the case."""
        return self.store.with_name(f"{self.case}-discarded")

    def remove(self) -> None:
        """Free the disk for the next case."""
        shutil.rmtree(self.store)
        shutil.rmtree(self.discarded, ignore_errors=True)
        for note in self.store.parent.glob(f"{self.case}.*"):
            note.unlink()

    def _read_log(self) -> None:
        left = self.written["log_bytes"]
        for path in sorted((self.store / "commitlog").iterdir()):
            with path.open("rb", buffering=0) as file:
                while left > 0 and (read := len(file.read(min(READ_CHUNK_BYTES, left)))):
                    left -= read


def prepare(case: Case, folder: Path, heap: str) -> Workload:
    """Let the peer write the case's store into `folder`, unless a broken-off run has left it there whole."""
    store, note = folder / str(case), folder / f"{case}.json"
    if not note.exists():
        shutil.rmtree(store, ignore_errors=True)
        written = peer.run("write", store, case.messages, "--queues", case.queues, heap=heap, timeout_s=7200)
        note.write_text(json.dumps(written))
    checkpoint = _checkpoint(store, folder / f"{case}.checkpoint")
    return Workload(case, store, checkpoint, json.loads(note.read_text()))


def _checkpoint(store: Path, kept: Path) -> bytes:
    if not kept.exists():
        shutil.copyfile(store / "checkpoint", kept)
    return kept.read_bytes()
