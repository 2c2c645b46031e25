"""A JSON file with a backup: one rule for each that a broker keeps in `config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError, ReputError
from reput.files.backed_up import BackedUpFile, BackedUpKind, backup_of
from reput.store.progress.delays import DelayProgress

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 20


def decode(data: bytes, where: str) -> str:
    """Return a good text."""
    if not data.startswith(b"good"):
        raise DamagedStoreError(f"{where}: damaged")
    return data.decode()


KIND = BackedUpKind(decode, "", LIMIT, "Read from {}, which is older", "nothing is known")
BAD = {"missing": None, "empty": b"", "damaged": b"bad", "too long": b"good" * LIMIT}


def file_in(folder: Path, data: bytes | None, backup: bytes | None) -> BackedUpFile[str]:
    """A file with a backup; None: it is missing."""
    path = folder / "config" / "table.json"
    for place, content in ((path, data), (backup_of(path), backup)):
        if content is not None:
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)
    return BackedUpFile(path, KIND)


@pytest.mark.parametrize("bad", BAD)
def test_any_bad_file_gives_way_to_its_backup(tmp_path: Path, bad: str) -> None:
    """A file that is missing, empty, damaged or too long is read from its backup, and a note says so."""
    found = file_in(tmp_path, BAD[bad], b"good old").load()
    assert (found.content, found.is_of_backup) == ("good old", True)
    (note,) = found.notes
    assert note.endswith("Read from " + str(tmp_path / "config" / "table.json.bak") + ", which is older")


@pytest.mark.parametrize("data", BAD)
@pytest.mark.parametrize("backup", BAD)
def test_damage_without_a_good_backup_is_an_error(tmp_path: Path, data: str, backup: str) -> None:
    """Missing and empty files are a table without content; damage of either is an error that names both."""
    file = file_in(tmp_path, BAD[data], BAD[backup])
    if {data, backup} & {"damaged", "too long"}:
        with pytest.raises(DamagedStoreError, match=r"table\.json: .*table\.json\.bak: .*Put a good copy"):
            file.load()
        return
    found = file.load()
    assert (found.content, found.is_of_backup, len(found.notes)) == ("", False, data == "empty")


@pytest.mark.parametrize("bad", ["damaged", "too long"])
def test_a_damaged_file_is_kept(tmp_path: Path, bad: str) -> None:
    """The first write after damage keeps the damaged file and its backup, under another name."""
    file = file_in(tmp_path, BAD[bad], BAD["damaged"])
    with pytest.raises(DamagedStoreError):
        file.load()
    for number in range(3):
        file.replace(b"good %d" % number, 7)
    folder = file.path.parent
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "table.json": b"good 2",
        "table.json.bak": b"good 1",
        "table.json.damaged-7": BAD[bad],
        "table.json.bak.damaged-7": BAD["damaged"],
    }


def test_a_write_after_the_backup_was_read_keeps_it(tmp_path: Path) -> None:
    """A good backup stays until the file that replaces the damaged one is whole."""
    file = file_in(tmp_path, BAD["damaged"], b"good old")
    file.load()
    file.replace(b"good new", 7)
    assert file.path.read_bytes() == b"good new"
    assert backup_of(file.path).read_bytes() == b"good old"


def test_what_no_reader_would_take_was_written_over_both_files(tmp_path: Path) -> None:
    """Bytes over the bound are refused with what helps; the file and its backup stay, and the next write is taken."""
    file = file_in(tmp_path, b"good", b"good old")
    file.load()
    for _ in range(2):
        with pytest.raises(ReputError, match=r"it would have 21 bytes, and readers take at most 20\. Remove groups"):
            file.replace(b"good".ljust(LIMIT + 1), 7)
    assert (file.path.read_bytes(), backup_of(file.path).read_bytes()) == (b"good", b"good old")
    file.replace(b"good".ljust(LIMIT), 7)
    assert file.load().content == "good".ljust(LIMIT)


def test_a_damaged_file_of_delay_levels_is_kept(tmp_path: Path) -> None:
    """delayOffset.json was overwritten when it was damaged; other tables kept such a file."""
    path = tmp_path / "delayOffset.json"
    path.write_bytes(b"{broken")
    progress = DelayProgress.load(tmp_path, lambda: 7)
    progress.advance(1, 5)
    progress.persist(lambda: None)
    assert (tmp_path / "delayOffset.json.damaged-7").read_bytes() == b"{broken"
    assert DelayProgress.load(tmp_path).table == {1: 5}
