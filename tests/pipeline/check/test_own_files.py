"""Files of reput's own that are damaged: `check` names them, and its remedy makes the store sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import DamagedStoreError
from reput.files.watermarks import damage_of_watermarks
from reput.formats.own import files as own
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", [own.FRONTIER_NAME, own.WATERMARKS_NAME])
@pytest.mark.parametrize("data", [b"nonsense" * 25, b"nonsense" * 512], ids=["short", "of its size"])
def test_a_damaged_file_of_our_own_was_called_sound(name: str, data: bytes, tmp_path: Path) -> None:
    """`check` finds a file that writers refuse; without it a rebuild makes the store sound, and puts go on."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 10)
    file = path / "reput" / name
    file.write_bytes(data)
    report = reput.check(path, spark=False, config=CONFIG)
    assert [(one.rule, one.file) for one in report.findings] == [("own-file-damaged", str(file))]
    with pytest.raises(DamagedStoreError, match=r"(?i)remove it"), reput.MessageStore.open(path, CONFIG):
        pass
    shown = CliRunner().invoke(cli, ["check", str(path), "--quiet"], standalone_mode=False)
    assert shown.return_value == 1
    assert "remove the damaged file of the folder `reput`" in shown.stdout
    file.unlink()
    reput.rebuild(path, spark=False, config=CONFIG)
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
        assert store.max_offset("t", 0) == 11
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("data", [b"", bytes(100), bytes(own.WATERMARKS_FILE_SIZE)], ids=["empty", "begun", "zeros"])
def test_watermarks_that_were_only_begun_are_no_damage(data: bytes, tmp_path: Path) -> None:
    """A file that a power cut has left without its values is one that the next writer makes."""
    (tmp_path / "watermarks").write_bytes(data)
    assert damage_of_watermarks(tmp_path / "watermarks") == ""
    assert damage_of_watermarks(tmp_path / "missing") == ""
