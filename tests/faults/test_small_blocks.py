"""A disk whose blocks are smaller than a page: a map needs all blocks of a page, and the system ends a process without.

The system asks for them when it writes to a clean page of a map, whichever byte of it is stored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from mmap import PAGESIZE
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.errors import NoSpaceError
from reput.files import fs
from reput.files.watermarks import Watermarks
from reput.formats.log.record import BLANK_SIZE
from reput.formats.own import files as own
from reput.log.append.append_file import AppendFile
from support.checked import assert_sound
from support.disks import with_small_blocks

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 40_000
"""Not a number of pages."""
FILLS_A_STORE = """
import contextlib, random, sys
from pathlib import Path
import reput

config = reput.StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=60_000, max_hash_slot_num=100, max_index_num=400
)
chance, disk = random.Random(0), Path(sys.argv[1])
(disk / "ballast").write_bytes(bytes(1 << 20))
with (
    contextlib.suppress(reput.NoSpaceError),
    reput.MessageStore.open(disk / "store", config, create=True) as store,
):
    for size in (100_000, 20_000, 3_000, 300, 10):
        message = reput.Message("t", chance.randbytes(size))
        while store.put_message(message, queue_id=0).status is reput.PutStatus.PUT_OK:
            pass
        print(store.max_offset("t", 0), flush=True)
        # Pages that are clean ask for their blocks again.
        with contextlib.suppress(reput.NoSpaceError):
            store.flush()
"""


@given(
    position=st.integers(0, FILE_SIZE - BLANK_SIZE),
    sizes=st.lists(st.integers(0, 5000), max_size=8),
    is_nearly_full=st.booleans(),
)
def test_sigbus_on_small_blocks(
    tmp_path_factory: pytest.TempPathFactory, position: int, sizes: list[int], is_nearly_full: bool
) -> None:
    """Each page that takes records is reserved up to its end, or the file's, also on a disk that is nearly full."""
    pages: set[int] = set()

    def noted(_descriptor: int, offset: int, length: int) -> None:
        if is_nearly_full and length > 2 * PAGESIZE:
            raise OSError(errno.ENOSPC, "full")
        end = offset + length
        pages.update(range(-(-offset // PAGESIZE), (end if end < FILE_SIZE else end + PAGESIZE - 1) // PAGESIZE))

    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(NoSpaceError):
        patch.setattr(fs, "reserve", noted)
        file = AppendFile(folder, 0, FILE_SIZE, fs.owner_of(folder), position=position)
        with contextlib.closing(file):
            at = position
            for size in sizes:
                end = min(at + size, FILE_SIZE - BLANK_SIZE)
                file.make_room(at, end)
                last = file.room_end + BLANK_SIZE - 1
                assert pages >= set(range(position // PAGESIZE, last // PAGESIZE + 1))
                at = end


def test_a_put_on_a_full_disk_of_small_blocks(tmp_path: Path) -> None:
    """Puts fill a disk of 1 KiB blocks to its end, with flushes in between, and are refused; the store stays sound."""
    with with_small_blocks(tmp_path / "disk", 16 << 20) as disk:
        done = subprocess.run([sys.executable, "-c", FILLS_A_STORE, disk], check=False, capture_output=True, text=True)
        assert done.returncode == 0, (done.returncode, done.stderr)
        stored = [int(line) for line in done.stdout.split()]
        assert len(stored) == 5
        assert stored[0] < stored[-1]
        (disk / "ballast").unlink()
        with reput.MessageStore.open(disk / "store", create=True) as store:
            assert store.max_offset("t", 0) == stored[-1]
        assert_sound(disk / "store")


def test_a_sparse_copy_of_the_watermarks_gets_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open reserves the page of watermarks if it has holes: values are stored through a map."""
    path, ranges = tmp_path / "watermarks", []
    Watermarks(path).close()
    monkeypatch.setattr(fs, "reserve", lambda _descriptor, offset, length: ranges.append((offset, length)))
    Watermarks(path).close()
    assert ranges == []
    os.truncate(path, 0)
    os.truncate(path, own.WATERMARKS_FILE_SIZE)
    Watermarks(path).close()
    assert ranges == [(0, own.WATERMARKS_FILE_SIZE)]
