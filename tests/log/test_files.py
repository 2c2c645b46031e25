"""The files of a log: their list, whether RocketMQ would load them, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError, NotAStoreError
from reput.files import fs
from reput.formats import paths
from reput.log.read.files import list_log_files

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path, *files: tuple[int, int]) -> Path:
    """Files of a log: start and length in bytes."""
    for start, size in files:
        (folder / paths.offset_name(start)).write_bytes(b"x" * size)
    return folder


def test_files_in_order(tmp_path: Path) -> None:
    """Files are listed in log order, names that are no offset are passed over."""
    make(tmp_path, (200, 100), (100, 100), (300, 100))
    (tmp_path / "100").touch()
    (tmp_path / ("9" * 20)).touch()
    (tmp_path / paths.offset_name(400)).mkdir()
    log = list_log_files(tmp_path)
    assert [(file.start, file.end) for file in log.files] == [(100, 200), (200, 300), (300, 400)]
    assert (log.min_offset, log.end_offset, log.file_size, log.gaps, log.notes) == (100, 400, 100, (), ())


def test_no_files(tmp_path: Path) -> None:
    """An empty folder is a log without files; no folder is no store."""
    log = list_log_files(tmp_path)
    assert (log.files, log.min_offset, log.end_offset) == ((), 0, 0)
    with pytest.raises(NotAStoreError):
        list_log_files(tmp_path / "missing")


@pytest.mark.parametrize("start", [0, 100, 1000])
def test_one_file_tells_its_size(start: int, tmp_path: Path) -> None:
    """A single file's length is the log's file size, unless another is configured."""
    make(tmp_path, (start, 100))
    assert list_log_files(tmp_path).file_size == 100
    with pytest.raises(DamagedStoreError, match=r"100 bytes, the log's files have 200"):
        list_log_files(tmp_path, 200)
    assert len(list_log_files(tmp_path, 200, tolerant=True).notes) == 1


def test_names_and_lengths_vote(tmp_path: Path) -> None:
    """One file of an odd length is odd, at any place in the row: the distance of names shows it."""
    make(tmp_path, (0, 60), (100, 100))
    with pytest.raises(DamagedStoreError, match=f"{paths.offset_name(0)}: 60 bytes"):
        list_log_files(tmp_path)
    log = list_log_files(tmp_path, tolerant=True)
    assert (log.file_size, log.gaps, len(log.notes)) == (100, ((60, 100),), 2)


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is named by the offsets that no file covers."""
    make(tmp_path, (0, 100), (200, 100))
    with pytest.raises(DamagedStoreError, match="100 bytes of log are missing"):
        list_log_files(tmp_path, 100)
    assert list_log_files(tmp_path, 100, tolerant=True).gaps == ((100, 200),)


@pytest.mark.parametrize(("gone", "left"), [(0, [100, 200]), (1, None)], ids=["the first", "one in the middle"])
def test_a_file_that_goes_while_the_log_is_listed(
    gone: int, left: list[int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that a writer deletes meanwhile, the first one, is left out; one in the middle is a gap as always."""
    make(tmp_path, (0, 100), (100, 100), (200, 100))
    end_of_data = fs.end_of_data

    def beside_a_deletion(path: Path, size: int) -> int:
        (tmp_path / paths.offset_name(100 * gone)).unlink(missing_ok=True)
        return end_of_data(path, size)

    monkeypatch.setattr(fs, "end_of_data", beside_a_deletion)
    if left is None:
        with pytest.raises(DamagedStoreError, match="100 bytes of log are missing"):
            list_log_files(tmp_path)
    else:
        assert [file.start for file in list_log_files(tmp_path).files] == left


def test_the_remedy_of_a_file_of_odd_length_went_in_a_circle(tmp_path: Path) -> None:
    """The error names `rebuild --salvage` and what it cannot do, as that of a missing file does: never an option."""
    make(tmp_path, (0, 100), (100, 77), (200, 100))
    with pytest.raises(DamagedStoreError, match="77 bytes") as odd:
        list_log_files(tmp_path)
    (tmp_path / paths.offset_name(100)).unlink()
    with pytest.raises(DamagedStoreError, match="are missing") as missing:
        list_log_files(tmp_path)
    for error in (odd, missing):
        assert "add --salvage" not in str(error.value)
        assert "`reput rebuild --salvage` builds the indexes of all other records" in str(error.value)
        assert "`reput convert --salvage`" in str(error.value)
        assert str(error.value).endswith("but `get` and other readers refuse the store")


def test_a_log_is_whole_if_readers_take_it(tmp_path: Path) -> None:
    """A log is whole without gaps and odd lengths; an empty last file, which RocketMQ removes, changes nothing."""
    make(tmp_path, (0, 100), (100, 100), (200, 0))
    assert list_log_files(tmp_path).is_whole
    make(tmp_path, (200, 60))
    assert not list_log_files(tmp_path, tolerant=True).is_whole
    make(tmp_path, (200, 100))
    (tmp_path / paths.offset_name(100)).unlink()
    assert not list_log_files(tmp_path, tolerant=True).is_whole


def test_only_the_last_file_may_be_empty(tmp_path: Path) -> None:
    """A zero-length last file is what RocketMQ removes; elsewhere it is damage."""
    make(tmp_path, (0, 100), (100, 100), (200, 0))
    log = list_log_files(tmp_path)
    assert (log.end_offset, len(log.notes)) == (200, 1)
    make(tmp_path, (100, 0), (200, 100))
    with pytest.raises(DamagedStoreError, match="0 bytes"):
        list_log_files(tmp_path)
