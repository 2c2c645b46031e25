"""The writer's files of a log, one after the other: a power cut leaves them as readers take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.paths import offset_name
from reput.log.encode.message import Message, PutStatus
from support.appends import open_log
from support.power.disk import Disk
from support.power.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

_CHOICES = 30


def test_no_power_cut_leaves_an_empty_file_or_a_hole_before_another(tmp_path: Path) -> None:
    """Without any flush a later file has a name on the disk only if the earlier ones have names and lengths there.

    A simulation found both: the store was refused, though what was durable was in the first file.
    """
    (tmp_path / "disk").mkdir()
    with Recorder(tmp_path / "disk") as recorder, open_log(tmp_path / "disk" / "log", file_size=4096) as log:
        while log.wrote < 3 * 4096:
            assert log.append(Message("orders", bytes(500))).status is PutStatus.PUT_OK
    disk = Disk(recorder.before)
    for entry in recorder.journal:
        disk.apply(entry)
        for choice in range(_CHOICES):
            files = [(path, data) for path, data in sorted(disk.state(choice).items()) if path.startswith("log/")]
            assert [path for path, _ in files] == [f"log/{offset_name(4096 * number)}" for number in range(len(files))]
            assert all(data for _, data in files[:-1]), f"choice {choice}: a file before the last one is empty"
