"""The seam to the operating system: whole writes, holes, maps, owners, and errors that name their path."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reput.errors import AccessError, NoSpaceError, ReputError
from reput.files import fs


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, NoSpaceError), (errno.EDQUOT, NoSpaceError), (errno.EACCES, AccessError),
        (errno.EROFS, AccessError), (errno.EIO, ReputError), (errno.EMFILE, ReputError),
    ],
)  # fmt: skip
def test_errors_have_their_class_and_name_their_path(number: int, kind: type[ReputError]) -> None:
    """An error of the system becomes one of ours that names the action and the path."""
    with pytest.raises(ReputError, match="some/path: cannot write") as caught, fs.errors_named("some/path", "write"):
        raise OSError(number, os.strerror(number))
    assert type(caught.value) is kind


def test_write_whole_replaces_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure at any point of a whole write leaves the old bytes and no temporary file."""
    path = tmp_path / "file"
    fs.write_whole(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    for name in ("pwrite", "sync"):
        with monkeypatch.context() as patch:
            patch.setattr(fs, name, refuse)
            with pytest.raises(NoSpaceError):
                fs.write_whole(path, b"new")
        assert path.read_bytes() == b"old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    fs.write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_pwrite_writes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is continued until everything is written."""
    true = os.pwrite
    monkeypatch.setattr(fs.os, "pwrite", lambda file, data, offset: true(file, data[:3], offset))
    path = str(tmp_path / "file")
    fs.write_at(path, 20, fs.owner_of(tmp_path), b"0123456789", 5)
    assert (tmp_path / "file").read_bytes() == bytes(5) + b"0123456789" + bytes(5)


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_end_of_data(size: int, tmp_path: Path) -> None:
    """After the end of data there are only zeros, and no data comes after it."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(size)
    assert fs.end_of_data(path, size) in (0, size)
    if size > 100_000:
        with path.open("r+b") as file:
            file.seek(70_000)
            file.write(b"x")
        assert 70_001 <= fs.end_of_data(path, size) <= size
        assert not any(path.read_bytes()[fs.end_of_data(path, size) :])
    path.write_bytes(b"x" * size)
    assert fs.end_of_data(path, size) == size


def test_open_sized_keeps_what_is_there(tmp_path: Path) -> None:
    """A file of the right size is opened as it is; folders above a new one are made."""
    owner = fs.owner_of(tmp_path)
    path = str(tmp_path / "a" / "b" / "file")
    fs.write_at(path, 8, owner, b"12345678", 0)
    fs.write_at(path, 8, owner, b"x", 3)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"123x5678"


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 10), (4090, 20), (8192, 100), (9999, 1), (10_000, 0)])
def test_mapped(offset: int, length: int, tmp_path: Path) -> None:
    """A map shows just the bytes asked for, wherever they start, and cannot be written."""
    data = np.random.default_rng(5).integers(0, 256, 10_000, dtype=np.uint8)
    path = tmp_path / "file"
    path.write_bytes(data.tobytes())
    with fs.mapped(path, offset, length) as view:
        assert view.tobytes() == data[offset : offset + length].tobytes()
        if length:
            assert not view.flags.writeable


def test_mapped_past_the_end(tmp_path: Path) -> None:
    """A file that became shorter is an error, not a signal."""
    path = tmp_path / "file"
    path.write_bytes(b"123")
    with pytest.raises(ReputError, match="3 bytes, 5 were expected"), fs.mapped(path, 1, 4):
        pass


def test_arrays(tmp_path: Path) -> None:
    """Arrays come back as they were; one that is cut short is an error."""
    path = str(tmp_path / "arrays")
    fs.save_array(path, np.arange(5, dtype=np.int64), np.empty(0, dtype=np.uint8), np.arange(3, dtype=np.uint8))
    assert fs.load_array(path, "i8", 5).tolist() == [0, 1, 2, 3, 4]
    assert fs.load_array(path, "u1", 3, 40).tolist() == [0, 1, 2]
    with pytest.raises(ReputError, match="holds 3 values from byte 40, 4"):
        fs.load_array(path, "u1", 4, 40)


def test_names_that_are_not_there(tmp_path: Path) -> None:
    """Reading and removing what is not there is no error; listing a missing folder gives nothing."""
    missing = tmp_path / "missing"
    assert fs.read_bytes(missing, 10) is None
    assert fs.list_dir(missing) == []
    fs.remove_file(missing)
    fs.remove_tree(missing)
    assert not fs.exists(missing)


def test_remove_tree_takes_links_as_links(tmp_path: Path) -> None:
    """The target of a link in a folder is not removed with the folder."""
    (tmp_path / "target").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "target")
    (tmp_path / "direct").symlink_to(tmp_path / "target")
    fs.remove_tree(tmp_path / "folder")
    fs.remove_tree(tmp_path / "direct")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_an_array_is_saved_again_beside_who_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that map an array's file, or read it while it is saved again, find it whole; nothing else is left."""
    path, array = str(tmp_path / "part"), np.arange(1000, dtype=np.int64)
    fs.save_array(path, array)
    mapped = fs.map_file(path, array.nbytes)
    pwrite = fs.pwrite

    def reading(descriptor: int, data: bytes | memoryview, offset: int) -> None:
        assert (fs.load_array(path, "i8", 1000) == array).all()
        pwrite(descriptor, data, offset)

    monkeypatch.setattr(fs, "pwrite", reading)
    fs.save_array(path, array[:500], array[500:])
    fs.save_array(path)
    assert (mapped.view("i8") == array).all()
    assert [one.name for one in tmp_path.iterdir()] == ["part"]


def test_forgotten_pages_leave_memory_and_come_back(tmp_path: Path) -> None:
    """A map that was read and forgotten takes no memory of this process, and shows the same bytes, and later ones."""
    path, size = tmp_path / "file", 32 << 20
    path.write_bytes(b"\x07" * size)
    array = fs.map_file(path, size)
    assert array.sum() == 7 * size
    before = resident_file_bytes()
    fs.forget_pages_of(array)
    assert before - resident_file_bytes() > size // 2
    with path.open("r+b") as file:
        file.write(b"\x09")
    assert array.sum() == 7 * size + 2


def resident_file_bytes() -> int:
    """Return the memory of this process that is mapped from files, in memory file systems too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(status[name].split()[0]) << 10 for name in ("RssFile", "RssShmem"))


def test_a_listing_beside_a_deletion_has_all_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes while a folder is listed takes no other file out of the list."""
    names = [f"{number}" for number in range(9)]
    for name in names:
        (tmp_path / name).write_bytes(b"1")
    scandir = os.scandir

    @contextlib.contextmanager
    def beside_a_deletion(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            found = list(entries)
        (folder / "4").unlink()
        yield iter(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", beside_a_deletion)
        listed = [entry.name for entry in fs.list_dir(tmp_path)]
    assert listed == sorted(path.name for path in tmp_path.iterdir())
    assert len(listed) == len(names) - 1
