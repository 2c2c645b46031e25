"""A call that finds no file where one was a moment ago is made again; one that finds damage is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError, ReputError
from reput.files import fs
from reput.files.gone import is_gone, tried_again

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("size", "gone"), [(None, True), (0, True), (1, False), (99, False)])
def test_a_file_that_has_no_length_yet_was_damage(size: int | None, gone: bool, tmp_path: Path) -> None:
    """A file that has a name and no length yet is one that is not there; a shorter one is damaged.

    A simulation found it: a catch-up made an IndexFile again while another thread asked for a key.
    """
    path = tmp_path / "file"
    if size is not None:
        path.write_bytes(bytes(size))
    with pytest.raises(ReputError) as raised:
        fs.map_file(path, 100)
    assert is_gone(raised.value) == gone
    assert isinstance(raised.value, DamagedStoreError) == (size is not None)


def test_a_file_that_gets_its_length_is_read(tmp_path: Path) -> None:
    """The second try finds the file whole."""
    path, tries = tmp_path / "file", []

    def look() -> int:
        tries.append(1)
        try:
            return len(fs.map_file(path, 100))
        finally:
            path.write_bytes(bytes(100))

    path.touch()
    assert tried_again(look) == 100
    assert len(tries) == 2
