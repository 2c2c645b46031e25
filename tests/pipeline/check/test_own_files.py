"""Files of reput's own that are damaged: `check` names them, and its remedy makes the store sound."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import DamagedStoreError
from reput.files.watermarks import damage_of_watermarks
from reput.formats import paths
from reput.formats.own import files as own
from support import stores
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


@pytest.mark.parametrize("knows", [True, False], ids=["frontier", "none"])
def test_a_lost_end_of_a_queue_that_no_opening_makes_again_was_called_a_leftover(knows: bool, tmp_path: Path) -> None:
    """Below the durable frontier nobody decodes the log again after a crash; without a frontier an opening does."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 25)
        put(store, 5, "other")
    last = max((path / paths.CONSUME_QUEUE / "t/0").iterdir())
    last.write_bytes(bytes(last.stat().st_size))
    (path / paths.ABORT).touch()
    if not knows:
        for name in (own.FRONTIER_NAME, own.GIVEN_OFFSETS_NAME):
            (path / paths.REPUT / name).unlink()
        (path / paths.CHECKPOINT).unlink()
    (found,) = (
        one for one in reput.check(path, spark=False, config=CONFIG).findings if one.rule == "queue-out-of-date"
    )
    assert (found.severity, found.count) == ("damage" if knows else "leftover", 5)
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.max_offset("t", 0) == (20 if knows else 25)


def test_a_later_queue_file_that_a_power_cut_kept_was_damage(tmp_path: Path) -> None:
    """Entries above the durable frontier may be there in part: the next catch-up makes all of them again."""
    path = tmp_path / "store"

    def work() -> None:
        store = reput.MessageStore.open(path, CONFIG)
        put(store, 10)
        store.flush()
        os._exit(0)

    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 15)
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    ahead = stores.copy(path, tmp_path / "ahead")
    with reput.MessageStore.open(ahead, CONFIG) as store:
        store.reput(spark=False)
    last = paths.offset_name(400)
    shutil.copy(ahead / paths.CONSUME_QUEUE / "t/0" / last, path / paths.CONSUME_QUEUE / "t/0" / last)
    report = reput.check(path, spark=False, config=CONFIG)
    assert report.sound
    assert ("queue-out-of-date", "leftover", 5) in [(one.rule, one.severity, one.count) for one in report.findings]
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.max_offset("t", 0) == 25
    assert_sound(path, CONFIG)
