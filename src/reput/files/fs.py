"""The calls of reput that change files, and most that read them, so that a test can make each of them fail.

Callers write `fs.pwrite(...)`, never `from ... import pwrite`: a replaced function then reaches all of them. An OSError
leaves this folder as the ReputError that names the path and the remedy.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import AccessError, DamagedStoreError, NoSpaceError, ReputError
from reput.files import owners
from reput.files.holes import Holes, back_holes, list_holes
from reput.files.pages import page_begin, page_end
from reput.files.remedies import NO_ACCESS, REMEDIES, TOO_LARGE

Owner = owners.Owner
_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NEW_OR_OURS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""Flags of files that are opened for writing. Never through a link: it could lead root's writes out of the store."""
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # the open of a named pipe would wait for a writer of it
_COPY_BYTES = 8 << 20


@contextlib.contextmanager
def errors_named(path: Path | str, doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a ReputError that names the action and the path.

    Raises:
        NoSpaceError: The disk or the quota is full.
        AccessError: Rights are missing, or the file system is read-only.
        ReputError: The system reports another error.
    """
    try:
        yield
    except OSError as error:
        text = f"{path}: cannot {doing}: {error.strerror or error}"
        if error.errno == errno.EFBIG:
            raise NoSpaceError(f"{text}. {TOO_LARGE}") from error
        if error.errno in _NO_SPACE:
            free = _free_of_any(path)
            room = "" if free is None else f", and {free:,} bytes are free"
            raise NoSpaceError(f"{text}{room}. Make room on this file system") from error
        if error.errno in NO_ACCESS:
            remedy = NO_ACCESS[error.errno].format(owner=owners.owner_text(path), us=owners.user_text(os.geteuid()))
            raise AccessError(f"{text}. {remedy}") from error
        if error.errno in REMEDIES:
            raise ReputError(f"{text}. {REMEDIES[error.errno]}") from error
        raise ReputError(text) from error


def _free_of_any(path: Path | str) -> int | None:
    """Return the free bytes on the file system of a path that may not exist; None if they are unknown."""
    for place in (path, os.path.dirname(path) or "."):
        with contextlib.suppress(OSError):
            status = os.statvfs(place)
            return status.f_bavail * status.f_frsize
    return None


class DirEntry(NamedTuple):
    """A name in a folder: is it a file or a link (links are not followed), its size, is it a link.

    Folders are no files, nor are a named pipe, a socket and a device. The size of what is no file is 0.
    """

    name: str
    is_file: bool
    size: int
    is_link: bool = False


def list_dir(path: Path | str) -> list[DirEntry]:
    """Return the entries of a folder, by name; none if it does not exist, or is not a folder.

    Files that another process deletes meanwhile may be missing, all others are there.
    """
    entries = []
    with (
        errors_named(path, "list the folder"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(path) as names,
    ):
        for name in names:
            if name.is_dir(follow_symlinks=False):
                # The listing has the type, so none of a hundred thousand topics needs a stat.
                entries.append(DirEntry(name.name, False, 0))
            else:
                try:
                    status = name.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # It was deleted since the system gave its name; those after it are still there.
                    continue
                is_link = stat.S_ISLNK(status.st_mode)
                is_file = is_link or stat.S_ISREG(status.st_mode)
                entries.append(DirEntry(name.name, is_file, status.st_size if is_file else 0, is_link))
    return sorted(entries)


def size_in(folder: Path | str, entry: DirEntry) -> int:
    """Return the size of a file that a listing of `folder` has, for a link that of its target."""
    return size_of(Path(folder) / entry.name) if entry.is_link else entry.size


def exists(path: Path | str) -> bool:
    """Return True if the name exists; a broken link counts.

    Raises:
        AccessError: A folder on the way must not be searched, so the answer is unknown.
    """
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(path)
        return True
    return False


def is_dir(path: Path | str) -> bool:
    """Return True if this is a folder or a link to one; errors as with `exists`."""
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return stat.S_ISDIR(os.stat(path).st_mode)
    return False


def size_of(path: Path | str) -> int:
    """Return the length of a file in bytes."""
    with errors_named(path, "look at"):
        return os.stat(path).st_size


def read_bytes(path: Path | str, limit: int, offset: int = 0) -> bytes | None:
    """Return at most `limit` bytes of a file from `offset`; None if it does not exist, or is no file."""
    with errors_named(path, "read"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(path, _TO_READ)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            return pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)
    return None


def pread(descriptor: int, limit: int, offset: int) -> bytes:
    """Return at most `limit` bytes of an open file from `offset`; unlike a map, this takes no memory of a tmpfs."""
    pieces = []
    while limit > 0 and (piece := os.pread(descriptor, limit, offset)):
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _too_short(path: Path | str, size: int, expected: int) -> DamagedStoreError:
    error = DamagedStoreError(
        f"{path}: has {size} bytes, {expected} were expected: it was cut, or is being deleted now. `reput check` says "
        "what is wrong; `reput rebuild` builds queues and IndexFiles again"
    )
    if size == 0:
        # A file gets its length right after its name: who looks in between tries again, as if it were not there.
        error.__cause__ = FileNotFoundError(errno.ENOENT, "no bytes", str(path))
    return error


@contextlib.contextmanager
def mapped(path: Path | str, offset: int, length: int) -> Iterator[NDArray[np.uint8]]:
    """Map `length` bytes of a file from `offset` read-only, as a uint8 array, until the block ends.

    Only bytes that were written before are visible for sure: see `Holes.ZEROS`.
    """
    begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    with errors_named(path, "map"):
        descriptor = os.open(path, _TO_READ)
        try:
            size = os.fstat(descriptor).st_size
            if offset + length > size:
                raise _too_short(path, size, offset + length)
            if length == 0:
                yield np.empty(0, dtype=np.uint8)
                return
            memory = mmap.mmap(descriptor, offset - begin + length, access=mmap.ACCESS_READ, offset=begin)
            back_holes(memory, descriptor, begin, Holes.ZEROS)
        finally:
            os.close(descriptor)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            memory.madvise(mmap.MADV_SEQUENTIAL)
    try:
        yield np.frombuffer(memory, dtype=np.uint8)[offset - begin :]
    finally:
        # Live views keep the map; the last of them releases it.
        with contextlib.suppress(BufferError):
            memory.close()


def map_file(path: Path | str, length: int, holes: Holes = Holes.LIVE) -> NDArray[np.uint8]:
    """Map the first `length` bytes of a file read-only, as a uint8 array; the map lives as long as its views.

    Raises:
        NoSpaceError: The file has holes that take memory, and there is none left (see `back_holes`).
    """
    with errors_named(path, "map"):
        descriptor = os.open(path, _TO_READ)
        try:
            size = os.fstat(descriptor).st_size
            if length > size:
                raise _too_short(path, size, length)
            if length == 0:
                return np.empty(0, dtype=np.uint8)
            memory = mmap.mmap(descriptor, length, access=mmap.ACCESS_READ)
            back_holes(memory, descriptor, 0, holes)
            return np.frombuffer(memory, dtype=np.uint8)
        finally:
            os.close(descriptor)


def end_of_data(path: Path | str, size: int) -> int:
    """Return an offset in a file of `size` bytes after which there is only a hole (zeros that were never written)."""
    with errors_named(path, "read"):
        descriptor = os.open(path, _TO_READ)
        try:
            for begin, end in list_holes(descriptor, 0, size):
                if end >= size:
                    return begin
            return size
        finally:
            os.close(descriptor)


def device_of(path: Path | str) -> int:
    """Return a number that identifies the file system of `path`."""
    with errors_named(path, "look at"):
        return os.stat(path).st_dev


def inode_of(descriptor: int) -> int:
    """Return the inode number of an open file."""
    return os.fstat(descriptor).st_ino


def owner_of(path: Path | str) -> Owner:
    """Return owner and modes of a folder of the store; files get its mode without the search bits."""
    with errors_named(path, "look at"):
        return owners.owner_in(os.stat(path))


def refuse_strangers(folder: Path | str) -> None:
    """Refuse to write if our files would not belong to the folder's owner, who could not use them.

    Raises:
        AccessError: They would belong to another user, or this user must not write here.
    """
    with errors_named(folder, "write into the folder"):
        is_strange = owners.is_strange(folder)
    if is_strange:
        owner, us = owners.owner_text(folder), owners.user_text(os.geteuid())
        raise AccessError(
            f"{folder}: belongs to {owner}. This process runs as {us}, and its files would lock the owner out. Run as "
            "its owner, or as root, who gives new files to the owner"
        )


def give_tree(path: Path | str, owner: Owner, *, deep: bool = True) -> None:
    """Give a folder that a library has filled, as root, to the store's owner; modes stay.

    Without `deep` the folders below it stay as they are.
    """
    with errors_named(path, "give to the store's owner"):
        owners.give_tree(path, owner, deep=deep)


def give_to(path: Path | str, owner: Owner) -> None:
    """Give a file of ours, as root, to the store's owner: otherwise the broker could not open it."""
    with errors_named(path, "give to the store's owner"):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give_descriptor_to(descriptor, owner)
        finally:
            os.close(descriptor)


def give_descriptor_to(descriptor: int, owner: Owner) -> None:
    """Give an open file, as root, to the store's owner."""
    if os.geteuid() == 0:
        owners.own(descriptor, owner, owner.file_mode)


def make_dirs(path: Path | str, owner: Owner | None = None) -> None:
    """Create a folder and those above it; new ones get `owner`, or as root the owner of the folder above."""
    path = Path(path)
    if path.is_dir():
        return
    make_dirs(path.parent, owner)
    with errors_named(path, "make the folder"), contextlib.suppress(FileExistsError):
        os.mkdir(path)
        # Somebody may have put a link to another folder in its place, which must not get the store's owner.
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            owners.belong(descriptor, path, owner, owner and owner.dir_mode)
        finally:
            os.close(descriptor)


def open_sized(path: str, size: int, owner: Owner) -> int:
    """Open a file of `size` bytes for writing; a missing file is created as one hole. Returns the descriptor."""
    with errors_named(path, f"make a file of {size} bytes"):
        try:
            descriptor = os.open(path, _NEW_OR_OURS, owner.file_mode)
        except FileNotFoundError:
            make_dirs(os.path.dirname(path), owner)
            descriptor = os.open(path, _NEW_OR_OURS, owner.file_mode)
        try:
            if os.fstat(descriptor).st_size != size:
                owners.own(descriptor, owner, owner.file_mode)
                os.ftruncate(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def pwrite(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at `offset`; a full disk is an error, not a short write."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def write_at(path: str, size: int, owner: Owner, data: bytes | memoryview, offset: int) -> None:
    """Write `data` at `offset` of a file of `size` bytes, which is created if it is missing."""
    descriptor = open_sized(path, size, owner)
    try:
        with errors_named(path, f"write {len(data)} bytes at {offset}"):
            pwrite(descriptor, data, offset)
    finally:
        close(descriptor)


def map_to_write(descriptor: int, size: int) -> mmap.mmap:
    """Map a file's first `size` bytes shared: bytes stored to the map are in the file.

    Store only to reserved bytes: without a block on the disk the system ends the process.
    """
    mapped = mmap.mmap(descriptor, size)
    if hasattr(mmap, "MADV_RANDOM"):
        # We have reserved or written the bytes ahead: reading them ahead made puts 3 % slower.
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped


def memory(size: int) -> mmap.mmap:
    """Return `size` zero bytes of memory; untouched pages cost nothing.

    The memory is private: of a shared map (Python's default) `forget_pages` would give nothing back to the system.
    """
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)


def forget_pages(mapped: mmap.mmap, begin: int, end: int) -> None:
    """Drop the whole pages between two places of a map. A file keeps their content; `memory` then holds zeros."""
    begin, end = page_end(begin), page_begin(end)
    if end > begin and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def forget_pages_of(array: NDArray[np.uint8]) -> None:
    """Drop the pages of a whole map of `map_file` from this process's memory; the next read finds them in the file."""
    base: Any = array.base
    memory = base.obj if isinstance(base, memoryview) else base
    if isinstance(memory, mmap.mmap):
        forget_pages(memory, 0, len(memory))


def reserve(descriptor: int, offset: int, length: int) -> None:
    """Reserve blocks on the disk for a range of a file: a full disk is an error here, not later."""
    os.posix_fallocate(descriptor, offset, length)


def close(descriptor: int) -> None:
    """Close a descriptor."""
    os.close(descriptor)


def sync(descriptor: int) -> None:
    """Make a file's bytes durable."""
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make a file's bytes durable, but not its times, which reading the bytes does not need."""
    os.fdatasync(descriptor)


def sync_path(path: Path | str) -> None:
    """Make a file's bytes, or a folder's names, durable."""
    with errors_named(path, "sync"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


def start_writeback(descriptor: int, offset: int = 0, length: int = 0) -> None:
    """Ask the system to begin writing out dirty pages (to the file's end with `length` 0), so a later sync has less."""
    if hasattr(_LIBC, "sync_file_range"):
        # 2 = SYNC_FILE_RANGE_WRITE. Only a hint: the sync gives durability, so an error here changes nothing.
        _LIBC.sync_file_range(
            ctypes.c_int(descriptor), ctypes.c_int64(offset), ctypes.c_int64(length), ctypes.c_uint(2)
        )


def sync_tree(path: Path | str) -> None:
    """Make everything under a folder durable: by one syncfs if the system has it, otherwise file by file."""
    with errors_named(path, "sync the file system"):
        if hasattr(_LIBC, "syncfs"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if _LIBC.syncfs(ctypes.c_int(descriptor)) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(descriptor)
            return
        for folder, _, files in os.walk(path):
            for name in files:
                sync_path(os.path.join(folder, name))
            sync_path(folder)


def rename(source: Path | str, target: Path | str) -> None:
    """Rename within the file system; an existing target file is replaced."""
    with errors_named(source, f"rename to {target}"):
        os.rename(source, target)


def link(source: Path | str, target: Path | str) -> None:
    """Give a file a second name in the file system."""
    with errors_named(source, f"link to {target}"):
        os.link(source, target, follow_symlinks=False)


def link_tree(source: Path | str, target: Path | str, owner: Owner) -> None:
    """Create a folder with links to the files of another one."""
    make_dirs(target, owner)
    for entry in list_dir(source):
        if not entry.is_file:
            link_tree(Path(source) / entry.name, Path(target) / entry.name, owner)
        else:
            link(Path(source) / entry.name, Path(target) / entry.name)


def copy_file(source: Path | str, target: Path | str, owner: Owner) -> None:
    """Copy a file to a new name, a piece at a time."""
    size = size_of(source)
    descriptor = open_sized(str(target), size, owner)
    try:
        for offset in range(0, size, _COPY_BYTES):
            piece = read_bytes(source, min(_COPY_BYTES, size - offset), offset) or b""
            with errors_named(target, f"copy {source} to it"):
                pwrite(descriptor, piece, offset)
    finally:
        close(descriptor)


def symlink(target: Path | str, name: Path | str) -> None:
    """Create the symbolic link `name` to `target`."""
    with errors_named(name, f"let it lead to {target}"):
        os.symlink(target, name)


TEMPORARY = ".tmp"
"""The end of the name that a file has until `write_whole` has written it; a kill or a power cut may leave it."""


def write_whole(
    path: Path | str, data: bytes | memoryview, owner: Owner | None = None, *, is_hidden: bool = False
) -> None:
    """Replace a file's content atomically: readers, also after a crash, find the old bytes or the new ones.

    The new bytes are first in a file beside it, with the suffix `TEMPORARY`. With `is_hidden` its name begins with a
    dot, since readers of whole folders of Parquet files pass over such names, and no other call has it: two attempts of
    a task may write the file at once.
    """
    folder, name = os.path.split(path)
    hidden = f".{name}-{os.getpid()}-{secrets.token_hex(4)}" if is_hidden else name
    temporary = os.path.join(folder, f"{hidden}{TEMPORARY}")
    try:
        _write_new(temporary, data, owner)
        rename(temporary, path)
    except ReputError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_path(folder)


def _write_new(path: str, data: bytes | memoryview, owner: Owner | None) -> None:
    with errors_named(path, "write"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, _NEW_OR_OURS | os.O_EXCL, 0o644)
        try:
            owners.belong(descriptor, path, owner, owner and owner.file_mode)
            pwrite(descriptor, data, 0)
            sync(descriptor)
        finally:
            os.close(descriptor)


def remove_file(path: Path | str) -> None:
    """Remove a file if it exists."""
    with errors_named(path, "remove"), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: Path | str) -> None:
    """Remove a folder and all below it if it exists."""
    with errors_named(path, "remove"), contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def save_array(path: str, *arrays: np.ndarray) -> None:
    """Write arrays one after the other, raw; the reader knows their lengths and dtypes.

    They are written under a name of their own and renamed when complete: another attempt of the same task may have left
    this file already, and a reader may have it open or mapped.
    """
    private = f"{path}.{secrets.token_hex(8)}"
    try:
        with errors_named(path, "write"):
            descriptor = os.open(private, _NEW_OR_OURS | os.O_EXCL, 0o600)
            try:
                owners.inherit(descriptor, path)
                offset = 0
                for array in arrays:
                    pwrite(descriptor, np.ascontiguousarray(array).data.cast("B"), offset)
                    offset += array.nbytes
            finally:
                os.close(descriptor)
        rename(private, path)
    except ReputError:
        with contextlib.suppress(OSError):
            os.unlink(private)
        raise


def append(path: str, data: bytes | memoryview) -> None:
    """Append bytes to a file of a job's own; a missing file is created."""
    with errors_named(path, "write"):
        descriptor = os.open(path, _NEW_OR_OURS, 0o600)
        try:
            owners.inherit(descriptor, path)
            pwrite(descriptor, data, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)


def load_array(path: str, dtype: str, count: int, offset: int = 0) -> np.ndarray:
    """Return `count` values of a raw array from byte `offset` of a file that `save_array` wrote."""
    with errors_named(path, "read"):
        array = np.fromfile(path, dtype=dtype, count=count, offset=offset)
    if len(array) != count:
        raise ReputError(f"{path}: holds {len(array)} values from byte {offset}, {count} were expected")
    return array


def modified_ms(path: Path | str) -> int | None:
    """Return the time (ms) of a file's last change; None if it does not exist, or is a folder."""
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.stat(path)
        return None if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns // 1_000_000
    return None
