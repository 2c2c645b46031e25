"""The file system of `reput.files` with a recorder: it passes each call on, and writes down each change.

    recorder = Recorder(folder)
    with recorder:
        work(folder / "store", recorder.note)
    recorder.journal                              every change in order, also bytes that were stored through a map
    recorder.before                               the files before

    Recorder(folder, full_from=12)                the disk has no room from the 12th call that takes some
    Recorder(folder, failing_sync=3)              the third sync fails, and the next one says nothing of it

Only `reput.files` changes files, so its modules get a system of their own. A store through a map is no call: before
each call the mapped files are compared with what the recorder has seen of them. RocksDB writes by itself: before each
call the files of its folders are compared, too. What it syncs by itself counts as kept, its log only after
`DatabaseOwner.sync`.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest

from reput.files import database_owner, fs, locks, owners, watermarks
from support.power.disk import SECTOR, Disk, read_tree
from support.power.journal import ROOT, Known, Link, Rename, Resize, Sync, SyncAll, Unlink, Write

if TYPE_CHECKING:
    from types import TracebackType

    from support.power.journal import Entry


class Recorder:
    """The recorder of one folder, the disk; it works within its `with` block. Safe for threads."""

    def __init__(self, folder: Path, *, full_from: int = 0, failing_sync: int = 0, seed: int = 0) -> None:
        self.folder = folder
        self.before = read_tree(folder)
        self.journal: list[Entry] = []
        self.takes, self.syncs = 0, 0
        self._full_from, self._failing_sync = full_from, failing_sync
        disk = Disk(self.before)
        self._numbers = disk.numbers
        self._next = len(self.before) + 1
        self._images = {
            self._numbers[path]: bytearray(found) for path, found in self.before.items() if isinstance(found, bytes)
        }
        self._open: dict[int, int] = {}
        self._reported_once = False
        self._to_learn: set[int] = set()
        """The open descriptors of files that another one has failed to sync."""
        self._mapped: dict[int, int] = {}
        self._databases: set[str] = set()
        self._lock = threading.RLock()
        self._patch = pytest.MonkeyPatch()
        self._chance = random.Random(seed)

    def note(self, what: str, value: int) -> None:
        """Write down what the program knows from now on."""
        with self._lock:
            self._observe()
            self.journal.append(Known(what, value))

    def __enter__(self) -> Self:
        system, maps, trees = _System(self), _Maps(self), _Trees(self)
        for module in (fs, watermarks, locks, owners):
            self._patch.setattr(module, "os", system)
        for module in (fs, watermarks):
            self._patch.setattr(module, "mmap", maps)
            self._patch.setattr(module, "secrets", self)
        self._patch.setattr(fs, "shutil", trees)
        self._patch.setattr(fs, "_LIBC", _Library(self))
        true_sync = database_owner.DatabaseOwner.sync

        def sync(owner: database_owner.DatabaseOwner) -> None:
            true_sync(owner)
            self._database_synced(owner.folder)

        true_init = database_owner.DatabaseOwner.__init__

        def init(
            owner: database_owner.DatabaseOwner, folder: Path, families: Any, logs: Path, *more: Any, **named: Any
        ) -> None:
            self._databases |= {inside for one in (folder, logs) if (inside := self._inside(one)) is not None}
            true_init(owner, folder, families, logs, *more, **named)

        self._patch.setattr(database_owner.DatabaseOwner, "sync", sync)
        self._patch.setattr(database_owner.DatabaseOwner, "__init__", init)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.undo()
        with self._lock:
            self._observe()
            for descriptor in self._mapped.values():
                os.close(descriptor)
            self._mapped.clear()

    # Names and ids that the program draws by lot are the same in each run.

    def token_hex(self, count: int) -> str:
        """Return random hex digits, as `secrets` does."""
        return self._chance.randbytes(count).hex()

    def randbits(self, count: int) -> int:
        """Return random bits, as `secrets` does."""
        return self._chance.getrandbits(count)

    # --- paths -----------------------------------------------------------------------------------

    def _inside(self, path: Any) -> str | None:
        """Return a path below the disk's folder, "" for the folder itself; None for another."""
        full = os.path.abspath(os.fspath(path))
        top = str(self.folder)
        if full == top:
            return ""
        return full[len(top) + 1 :] if full.startswith(f"{top}/") else None

    def _place(self, inside: str) -> tuple[int, str]:
        """Return the folder and the name of a path below the disk's folder."""
        folder, _, name = inside.rpartition("/")
        return (self._numbers[folder] if folder else ROOT), name

    def _add(self, inside: str, makes: str) -> int:
        number, self._next = self._next, self._next + 1
        folder, name = self._place(inside)
        self._numbers[inside] = number
        if makes == "file":
            self._images[number] = bytearray()
        self.journal.append(Link(folder, name, number, makes))
        return number

    def _moved(self, inside: str, to: str) -> None:
        for path in [path for path in self._numbers if path == to or path.startswith(f"{to}/")]:
            del self._numbers[path]
        for path in [path for path in self._numbers if path == inside or path.startswith(f"{inside}/")]:
            self._numbers[to + path[len(inside) :]] = self._numbers.pop(path)
            if path in self._databases:
                self._databases.add(to + path[len(inside) :])

    # --- what no call says -------------------------------------------------------------------------

    def _observe(self) -> None:
        """Write down what was stored through maps, and what RocksDB has done."""
        for number, descriptor in self._mapped.items():
            self._compare(number, os.pread(descriptor, len(self._images[number]), 0))
        for folder in sorted(self._databases.intersection(self._numbers)):
            self._look_at_database(folder)

    def _compare(self, number: int, now: bytes) -> None:
        image = self._images[number]
        if now == image:
            return
        size = max(len(now), len(image))
        if len(now) != len(image):
            self.journal.append(Resize(number, len(now)))
        old, new = (np.frombuffer(one.ljust(size, b"\0"), dtype=np.uint8) for one in (bytes(image), now))
        found = np.flatnonzero(old[: len(now)] != new[: len(now)])
        for sector in np.unique(found // SECTOR):
            inside = found[found // SECTOR == sector]
            begin, end = int(inside[0]), int(inside[-1]) + 1
            self.journal.append(Write(number, begin, now[begin:end]))
        image[:] = now

    def _look_at_database(self, folder: str) -> None:
        """Write down the changes of a RocksDB's folder: tables and manifests as kept, its log as written."""
        before = len(self.journal)
        here = {entry.name: entry for entry in os.scandir(self.folder / folder) if entry.is_file()}
        known = [path for path in self._numbers if path.rpartition("/")[0] == folder]
        for path in known:
            name = path.rpartition("/")[2]
            if name not in here and self._numbers[path] in self._images:
                del self._numbers[path]
                self.journal.append(Unlink(*self._place(path)))
        for name in sorted(here):
            path = f"{folder}/{name}"
            number = self._numbers.get(path)
            entries = len(self.journal)
            if number is None:
                number = self._add(path, "file")
            self._compare(number, Path(here[name].path).read_bytes())
            if len(self.journal) > entries and not name.endswith(".log"):
                self.journal.append(Sync(number))
        if len(self.journal) > before:
            self.journal.append(Sync(self._numbers[folder]))

    def _database_synced(self, folder: Path) -> None:
        with self._lock:
            self._observe()
            inside = self._inside(folder)
            logs = [path for path in self._numbers if path.rpartition("/")[0] == inside and path.endswith(".log")]
            self.journal.extend(Sync(self._numbers[path]) for path in logs)

    def fail_next_sync(self, *, reported_once: bool = False) -> None:
        """Have the disk refuse the next sync, and report it to all that have the file open, or to one."""
        self._failing_sync, self._reported_once = self.syncs + 1, reported_once

    def take_room(self) -> None:
        """Note a call that takes room; fail it if the disk is full by now."""
        self.takes += 1
        if self._full_from and self.takes >= self._full_from:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def room_for(self, size: int) -> int:
        """Return how many of some bytes the disk takes: all of them, or half where it becomes full."""
        if size > 1 and self.takes + 1 == self._full_from:
            self.takes += 1
            return size // 2
        self.take_room()
        return size

    def not_synced(self, numbers: set[int]) -> None:
        """Note that files could not be synced; others that have them open learn it at a sync of theirs."""
        self.journal.extend(Sync(number, failed=True) for number in sorted(numbers))
        if not self._reported_once:
            self._to_learn.update(descriptor for descriptor, number in self._open.items() if number in numbers)

    def synced(self, number: int, call: Any) -> None:
        """Pass a sync on; its file is on the disk as it was when the call began."""
        self._observe()
        self.syncs += 1
        if self.syncs == self._failing_sync:
            self.not_synced({number})
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        call()
        self.journal.append(Sync(number))


class _System:
    """The module `os` as the recorder's modules see it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        recorder = self._recorder
        inside = recorder._inside(path)
        if inside is None:
            return os.open(path, flags, mode, **more)
        with recorder._lock:
            recorder._observe()
            is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            if is_new:
                recorder.take_room()
            descriptor = os.open(path, flags, mode, **more)
            if is_new:
                recorder._add(inside, "file")
            recorder._open[descriptor] = recorder._numbers.get(inside, ROOT) if inside else ROOT
            return descriptor

    def close(self, descriptor: int) -> None:
        recorder = self._recorder
        with recorder._lock:
            recorder._open.pop(descriptor, None)
            recorder._to_learn.discard(descriptor)
            os.close(descriptor)

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        recorder = self._recorder
        with recorder._lock:
            number = recorder._open.get(descriptor)
            if number is None:
                return os.pwrite(descriptor, data, offset)
            recorder._observe()
            piece = bytes(data)
            # A disk takes what fits of the first write that does not, and nothing of the next.
            count = os.pwrite(descriptor, piece[: recorder.room_for(len(piece))], offset)
            recorder.journal.append(Write(number, offset, piece[:count]))
            image = recorder._images[number]
            if offset + count > len(image):
                image.extend(bytes(offset + count - len(image)))
            image[offset : offset + count] = piece[:count]
            return count

    def ftruncate(self, descriptor: int, size: int) -> None:
        recorder = self._recorder
        with recorder._lock:
            recorder._observe()
            if size > os.fstat(descriptor).st_size:
                recorder.take_room()
            os.ftruncate(descriptor, size)
            self._resized(descriptor, size)

    def posix_fallocate(self, descriptor: int, offset: int, length: int) -> None:
        recorder = self._recorder
        with recorder._lock:
            recorder._observe()
            if descriptor in recorder._open:
                recorder.take_room()
            os.posix_fallocate(descriptor, offset, length)
            number = recorder._open.get(descriptor)
            if number is not None and offset + length > len(recorder._images[number]):
                self._resized(descriptor, offset + length)

    def _resized(self, descriptor: int, size: int) -> None:
        recorder = self._recorder
        number = recorder._open.get(descriptor)
        if number is None:
            return
        recorder.journal.append(Resize(number, size))
        image = recorder._images[number]
        del image[size:]
        image.extend(bytes(size - len(image)))

    def fsync(self, descriptor: int) -> None:
        self._sync(descriptor, os.fsync)

    def fdatasync(self, descriptor: int) -> None:
        self._sync(descriptor, os.fdatasync)

    def _sync(self, descriptor: int, call: Any) -> None:
        recorder = self._recorder
        with recorder._lock:
            number = recorder._open.get(descriptor)
            if number is None:
                call(descriptor)
                return
            if descriptor in recorder._to_learn:
                # Linux reports a failed sync once to each that had the file open then.
                recorder._to_learn.remove(descriptor)
                recorder._observe()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            try:
                recorder.synced(number, lambda: call(descriptor))
            finally:
                recorder._to_learn.discard(descriptor)

    def mkdir(self, path: Any, *arguments: Any, **named: Any) -> None:
        recorder = self._recorder
        inside = recorder._inside(path)
        with recorder._lock:
            recorder._observe()
            if inside is not None and not os.path.lexists(path):
                recorder.take_room()
            os.mkdir(path, *arguments, **named)
            if inside is not None:
                recorder._add(inside, "folder")

    def rename(self, source: Any, target: Any) -> None:
        recorder = self._recorder
        inside, to = recorder._inside(source), recorder._inside(target)
        with recorder._lock:
            recorder._observe()
            recorder.take_room()
            os.rename(source, target)
            if inside is None or to is None:
                assert inside is to, "nothing moves between disks"
                return
            change = Rename(*recorder._place(inside), *recorder._place(to), recorder._numbers[inside])
            recorder.journal.append(change)
            recorder._moved(inside, to)

    def link(self, source: Any, target: Any, **named: Any) -> None:
        recorder = self._recorder
        inside, to = recorder._inside(source), recorder._inside(target)
        with recorder._lock:
            recorder._observe()
            recorder.take_room()
            os.link(source, target, **named)
            if inside is not None and to is not None:
                number = recorder._numbers[to] = recorder._numbers[inside]
                recorder.journal.append(Link(*recorder._place(to), number))

    def symlink(self, target: Any, name: Any, **named: Any) -> None:
        recorder = self._recorder
        inside = recorder._inside(name)
        with recorder._lock:
            recorder._observe()
            recorder.take_room()
            os.symlink(target, name, **named)
            if inside is not None:
                recorder._add(inside, f"->{os.fspath(target)}")

    def unlink(self, path: Any, **named: Any) -> None:
        self._remove(path, os.unlink, **named)

    def rmdir(self, path: Any, **named: Any) -> None:
        self._remove(path, os.rmdir, **named)

    def _remove(self, path: Any, call: Any, **named: Any) -> None:
        recorder = self._recorder
        inside = recorder._inside(path)
        with recorder._lock:
            recorder._observe()
            call(path, **named)
            if inside is not None:
                recorder.journal.append(Unlink(*recorder._place(inside)))
                del recorder._numbers[inside]


class _Maps:
    """The module `mmap` as the recorder's modules see it."""

    def __init__(self, recorder: Recorder) -> None:
        class Map(mmap.mmap):
            """A map whose file the recorder looks at."""

            _number = None

            def __new__(cls, descriptor: int, length: int, *arguments: Any, **named: Any) -> Self:
                made = super().__new__(cls, descriptor, length, *arguments, **named)
                if "access" not in named and "flags" not in named:
                    with recorder._lock:
                        made._number = number = recorder._open.get(descriptor)
                        if number is not None and number not in recorder._mapped:
                            recorder._mapped[number] = os.dup(descriptor)
                return made

            def flush(self, *arguments: Any) -> None:
                if self._number is None:
                    super().flush(*arguments)
                    return
                with recorder._lock:
                    recorder.synced(self._number, lambda: mmap.mmap.flush(self, *arguments))

        self.mmap = Map

    def __getattr__(self, name: str) -> Any:
        return getattr(mmap, name)


class _Trees:
    """The module `shutil` as `fs` sees it: a folder is removed name by name."""

    def __init__(self, recorder: Recorder) -> None:
        self._system = _System(recorder)
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(shutil, name)

    def rmtree(self, path: Any) -> None:
        for folder, folders, files in os.walk(path, topdown=False):
            for name in sorted(files):
                self._system.unlink(os.path.join(folder, name))
            for name in sorted(folders):
                full = os.path.join(folder, name)
                if os.path.islink(full):
                    self._system.unlink(full)
            self._system.rmdir(folder)


class _Library:
    """The C library as `fs` sees it: a sync of the whole file system."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.sync_file_range = lambda *_: 0

    def syncfs(self, descriptor: Any) -> int:
        recorder = self._recorder
        with recorder._lock:
            recorder._observe()
            recorder.syncs += 1
            assert recorder._failing_sync != recorder.syncs or descriptor is not None
            if recorder.syncs == recorder._failing_sync:
                import ctypes

                recorder.not_synced({entry.number for entry in recorder.journal if isinstance(entry, Write | Resize)})
                ctypes.set_errno(errno.EIO)
                return -1
            # All of this disk is in this recorder's folder. The true call would wait for other disks' programs.
            recorder.journal.append(SyncAll())
            return 0
