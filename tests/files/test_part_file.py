"""Parts: what one stage leaves comes back as it was, and nothing else is believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.errors import ReputError
from reput.files.part_file import Part, part_path, write_part
from reput.formats.own.part_file import PART_COLUMN, PART_HEADER, PartKind

KIND = PartKind("test", {"number": "i8", "flag": "u1"}, {"text": "u1", "entry": "V20", "other": "i4"})
OTHER = PartKind("test2", KIND.rows, KIND.others)


def write(folder: Path, rows: int = 3, text: bytes = b"abc", entries: int = 2) -> tuple[str, dict[str, bytes]]:
    """A part with that many values in its columns; returns its path and their bytes."""
    columns = {
        "number": np.arange(rows, dtype=np.int64) - 1,
        "flag": np.ones(rows, dtype=np.bool_),
        "text": np.frombuffer(text, dtype=np.uint8),
        "entry": np.arange(20 * entries, dtype=np.uint8),
        "other": np.arange(2 * entries, dtype=np.int32)[::2],
    }
    path = part_path(str(folder), KIND, rows)
    write_part(path, KIND, **columns)
    return path, {name: column.tobytes() for name, column in columns.items()}


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 9), text=st.binary(max_size=9), entries=st.integers(0, 5))
def test_columns_come_back(tmp_path_factory: pytest.TempPathFactory, rows: int, text: bytes, entries: int) -> None:
    """Every column, whole, in pieces and mapped, is what was written, and begins at a multiple of 8 bytes."""
    path, wanted = write(tmp_path_factory.mktemp("part"), rows, text, entries)
    part = Part(path, KIND)
    names = [*KIND.dtypes]
    for name, mapped in zip(names, part.mapped(*names), strict=True):
        count = part.count(name)
        assert part.read(name).tobytes() == mapped.tobytes() == wanted[name]
        assert part.read(name).dtype == mapped.dtype == np.dtype(KIND.dtypes[name])
        cut = count // 2
        assert part.read(name, 0, cut).tobytes() + part.read(name, cut, count).tobytes() == wanted[name]
    assert [mapped.ctypes.data % 8 for mapped in part.mapped(*names) if len(mapped)] == [
        0 for name in names if part.count(name)
    ]
    assert [one.name for one in Path(path).parent.iterdir()] == [f"{rows}.test"]


def test_a_changed_head_is_not_believed(tmp_path: Path) -> None:
    """Whichever byte of the head differs, and wherever the file is cut or goes on, opening it is an error."""
    path, _ = write(tmp_path)
    whole = Path(path).read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(KIND.head_size)]
    for data in (*changed, *(whole[:end] for end in range(len(whole))), whole + b"x", b""):
        Path(path).write_bytes(data)
        with pytest.raises(ReputError, match=r"3\.test: (ends at byte|byte 0).*run the job again"):
            Part(path, KIND)
    Path(path).write_bytes(whole)
    with pytest.raises(ReputError, match="kind test2"):
        Part(path, OTHER)


@pytest.mark.parametrize("count", [-1, 4, 1 << 40, (1 << 63) - 1, -(1 << 63)])
def test_counts_are_held_against_the_size(count: int, tmp_path: Path) -> None:
    """A count that the file cannot have is refused before anything is read by it."""
    path, _ = write(tmp_path)
    data = bytearray(Path(path).read_bytes())
    for column in range(5):
        at = PART_HEADER.size + column * PART_COLUMN.size + PART_COLUMN.offsets["count"]
        Path(path).write_bytes(data[:at] + count.to_bytes(8, "little", signed=True) + data[at + 8 :])
        with pytest.raises(ReputError, match="byte 0 is not the head"):
            Part(path, KIND)


def test_reading_behind_a_column(tmp_path: Path) -> None:
    """A range that a column does not have is an error that names the column."""
    part = Part(write(tmp_path)[0], KIND)
    for begin, end in ((0, 4), (3, 2), (-1, 2)):
        with pytest.raises(ReputError, match="column number has 3 values"):
            part.read("number", begin, end)


def test_what_cannot_be_a_part(tmp_path: Path) -> None:
    """Rows of different lengths, and columns that the kind has not, are a mistake of the caller."""
    columns = {name: np.zeros(2, dtype=np.dtype(dtype)) for name, dtype in KIND.dtypes.items()}
    path = str(tmp_path / "part")
    with pytest.raises(ValueError, match="equally long"):
        write_part(path, KIND, **columns | {"flag": np.zeros(3, dtype=np.uint8)})
    with pytest.raises(ValueError, match="no column more"):
        write_part(path, KIND, more=columns["flag"], **columns)
    with pytest.raises(KeyError):
        write_part(path, KIND, number=columns["number"])
    assert [*tmp_path.iterdir()] == []
