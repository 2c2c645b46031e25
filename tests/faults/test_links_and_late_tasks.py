"""Links, locks and late attempts: what would let one process write where, or when, it must not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import AccessError, StaleEpochError
from reput.files import locks
from reput.pipeline.build.rebuild import rebuild as rebuild_module
from reput.pipeline.build.stages import decode as decode_module
from support import golden

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.split.job import Job, SplitResult
    from reput.pipeline.split.plan import Split

PROBE = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"


def is_free(lock: Path) -> bool:
    """Return true if another process could take RocketMQ's lock."""
    return subprocess.run([sys.executable, "-c", PROBE, str(lock)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "name",
    ["lock", "reput/lock", "reput/watermarks", "reput", "reput/staging-2", "reput/aside-2", "reput/sinks", "reput/any"],
)
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    """A link in the place of a file or a folder of ours is refused, and what it leads to stays as it is."""
    store = golden.unpack("basic", tmp_path)
    target = tmp_path / "precious"
    if name not in ("lock", "reput/lock", "reput/watermarks"):
        target.mkdir()
    else:
        target.write_bytes(b"precious")
    link = store / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)

    with pytest.raises(AccessError):
        reput.rebuild(store, spark=False)
    assert list(target.iterdir()) == [] if target.is_dir() else target.read_bytes() == b"precious"


def test_a_check_beside_a_rebuild_keeps_the_brokers_lock(tmp_path: Path) -> None:
    """To look at the lock in the process that holds it must not drop it: POSIX would, at any close of the file."""
    store = golden.unpack("basic", tmp_path)
    lock = store / "lock"
    with locks.broker_lock(lock):
        reput.check(store, spark=False)
        assert not is_free(lock)
        assert locks.broker_is_live(lock)
    assert is_free(lock)


def test_a_late_attempt_of_a_stage_that_is_over_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between decoding and the swap the tasks of the first stage are fenced off, so a late one changes nothing."""
    store = golden.unpack("basic", tmp_path)
    late: list[object] = []
    publish = rebuild_module.swap.swap_in
    decode = decode_module.decode_and_sink

    def remember(job: Job, split: Split) -> SplitResult:
        late[:] = [job, split]
        return decode(job, split)

    def swap_in(*arguments: object) -> None:
        with pytest.raises(StaleEpochError):
            decode(*late)  # type: ignore[arg-type]
        publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(decode_module, "decode_and_sink", remember)
    monkeypatch.setattr(rebuild_module.swap, "swap_in", swap_in)
    report = reput.rebuild(store, spark=False)

    assert late
    assert report.messages == golden.facts("basic").messages
