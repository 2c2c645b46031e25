"""Stores on a small tmpfs: what is sparse needs memory when it is mapped, and the system ends a process without any."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, bodies
from reput.files import fs
from reput.formats.topics.system_topics import TIMER_TOPIC
from reput.formats.wire.codes import ResponseCode
from reput.log.append.append_file import RESERVE_STEP, RESERVE_STEP_MIN, AppendFile
from support.checked import assert_sound
from support.disks import mounted, remount
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

FILLS_A_STORE = """
import json, sys
from pathlib import Path
import reput
from reput.cli.main import run
from support.disks import fill

disk = Path(sys.argv[1])
store, steps = disk / "store", {}
try:
    with reput.MessageStore.open(store, create=True) as opened:
        message = reput.Message("t", b"x" * 5000, keys="k")
        while (result := opened.put_message(message, queue_id=0)).status is reput.PutStatus.PUT_OK:
            steps["put"] = result.queue_offset + 1
        steps["last"] = [result.status.value, result.reason, opened.put_messages([message] * 20).status.value]
        steps["pulled"] = len(opened.get_message("t", 0, 0, 32))
        steps["queried"] = len(opened.query_message("t", "k", 3))
except reput.NoSpaceError as error:
    steps["close"] = str(error)
fill(disk)
for command in sys.argv[2:]:
    steps[command] = run(command.replace("STORE", str(store)).split())
print(json.dumps(steps), file=sys.__stderr__)
"""
READS = (
    "get STORE -t t -q 0 -c 2",
    "check STORE --no-spark",
    "info STORE",
    "query STORE -t t --key k",
    "offset STORE -t t",
    "progress STORE",
    "dump log STORE -c 2",
)
WRITES = (
    "rebuild STORE --no-spark",
    "follow STORE --until-caught-up --no-spark",
    "convert STORE --to rocksdb --no-spark",
    "put STORE -t t",
)
READS_HOLES = """
import sys
from pathlib import Path
from reput.errors import NoSpaceError
from reput.files import fs
from reput.log.append.append_file import RESERVE_STEP, RESERVE_STEP_MIN, AppendFile
from reput.files.holes import Holes
from support.disks import fill

disk = Path(sys.argv[1])
path, size = disk / "sparse", 64 << 20
with path.open("wb") as file:
    file.truncate(size)
    for at in (0, 8 << 20, 8 << 20 | 8192):
        file.seek(at)
        file.write(b"x")
fill(disk)
with fs.mapped(path, 4096, size - 4096) as array:
    assert int(array.sum()) == 2 * ord("x")
assert int(fs.map_file(path, size, Holes.INNER_ZEROS)[: (8 << 20) + 12288].sum()) == 3 * ord("x")
try:
    fs.map_file(path, size, Holes.LIVE)
except NoSpaceError as error:
    print(error)
"""

FILLS_WITH_TIMERS = """
import json, os, signal, sys, time
from pathlib import Path
import reput
from broker.remoting import Client
from support.disks import fill

disk = Path(sys.argv[1])
config = reput.StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=60_000, max_hash_slot_num=100, max_index_num=400
)
running = reput.serve(disk / "store", topics={"orders": 1}, config=config)
client, sent = Client(running.address), []
for number in range(2000):
    if number == 20:
        fill(disk)
    delay_s = 5 if number % 10 == 0 else 1000 + number * 977 % 200_000
    answer = client.put("orders", b"%d" % delay_s, properties=f"TIMER_DELAY_SEC\\x01{delay_s}\\x02")
    if answer.code:
        break
    sent.append(delay_s)
    if number < 20:
        time.sleep(0.05)
time.sleep(3)
client.pull("orders")
bodies = 0
while (code := client.put("orders", b"x" * 100_000).code) == 0:
    bodies += 1
print(json.dumps([sent.count(5), len(sent), bodies, code]), flush=True)
# A start needs a few files of its own.
os.truncate(disk / "filler", os.path.getsize(disk / "filler") - (64 << 10))
os.kill(os.getpid(), signal.SIGKILL)
"""
SERVES_AGAIN = """
import os, signal, sys, time
from pathlib import Path
import reput
from broker.remoting import Client

running = reput.serve(Path(sys.argv[1]) / "store")
time.sleep(2)
assert Client(running.address).pull("orders").code == 0
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 12 MiB."""
    with mounted(tmp_path / "disk", "12m") as folder:
        yield folder


def run_alone(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which a signal may end."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, check=False, capture_output=True, text=True, input="", env=environment)


def pulled(client: Client, topic: str) -> list[bytes]:
    """The bodies of a topic's queue 0."""
    found: list[bytes] = []
    while more := bodies(client.pull(topic, 0, len(found))):
        found += more
    return found


def test_sigbus_on_a_small_tmpfs(disk: Path) -> None:
    """On a full tmpfs every command either works or says what is missing; with more room nothing is lost."""
    done = run_alone(FILLS_A_STORE, disk, *READS, *WRITES, *READS)
    assert done.returncode != -signal.SIGBUS
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stderr.splitlines()[-1])
    assert steps["last"][0] == steps["last"][2] == "DISK_FULL"
    assert "bytes are free. Make room" in steps["last"][1]
    assert "cannot" in steps["close"]
    assert steps["put"] > 1000
    assert (steps["pulled"], steps["queried"]) == (32, 3)
    assert {command: steps[command] for command in READS} == dict.fromkeys(READS, 0)
    assert {command: steps[command] for command in WRITES} == dict.fromkeys(WRITES, 2)
    remount(disk, "size=32m")
    with reput.MessageStore.open(disk / "store", create=True) as store:
        assert store.max_offset("t", 0) == steps["put"]
    assert_sound(disk / "store")


def test_holes_on_a_full_tmpfs_are_refused_before_they_are_mapped(disk: Path) -> None:
    """A hole reads as zeros in a map that shows no later writes; a map that shows them is refused with words."""
    done = run_alone(READS_HOLES, disk)
    assert done.returncode == 0, done.stderr
    assert f"{disk / 'sparse'}: cannot map: holes of {(8 << 20) - 4096} bytes at 4096" in done.stdout
    assert "0 bytes are free. Make room" in done.stdout


def test_a_small_store_is_small(tmp_path: Path) -> None:
    """A store of one message with a key takes less than 2 MiB of disk, though its files keep RocketMQ's lengths."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, create=True) as opened:
        opened.put_message(reput.Message("t", b"x", keys="k"))
    files = [path.stat() for path in store.rglob("*") if path.is_file()]
    assert sum(file.st_blocks * 512 for file in files) < 2 << 20
    assert {1 << 30, 6_000_000, 420_000_040} <= {file.st_size for file in files}
    assert_sound(store)


def test_what_is_reserved_grows_with_the_log(tmp_path: Path) -> None:
    """A log reserves as much again as it has, from 1 MiB up to 64 MiB at once, in each file as far as the log is."""
    owner, steps = fs.owner_of(tmp_path), []
    file = AppendFile(tmp_path, 0, 1 << 30, owner)
    while file.reserved < 4 * RESERVE_STEP:
        before = file.reserved
        file.make_room(before, before + 1, by_write=True)
        steps.append(file.reserved - before)
    file.close()
    doubled = [max(RESERVE_STEP_MIN, RESERVE_STEP >> number) for number in range(6, -1, -1)]
    assert steps[: len(doubled) + 1] == [RESERVE_STEP_MIN, *doubled]
    assert set(steps[len(doubled) :]) == {RESERVE_STEP}
    later = AppendFile(tmp_path, 1 << 30, 1 << 30, owner)
    later.make_room(0, 1, by_write=True)
    later.close()
    assert later.reserved == RESERVE_STEP


def test_sigbus_in_timer_files(disk: Path) -> None:
    """On a full tmpfs timers end no broker, while it runs and at a start after a kill; with room each message comes."""
    done = run_alone(FILLS_WITH_TIMERS, disk)
    assert done.returncode == -signal.SIGKILL, done.stderr
    due, sent, others, code = json.loads(done.stdout)
    assert due > 10
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    again = run_alone(SERVES_AGAIN, disk)
    assert again.returncode == -signal.SIGKILL, again.stderr
    remount(disk, "size=64m")
    with reput.serve(disk / "store") as running, Client(running.address) as client:
        wait_until(lambda: len(pulled(client, "orders")) == due + others)
        assert pulled(client, "orders").count(b"5") == due
    with reput.MessageStore.open(disk / "store", read_only=True) as store:
        assert store.max_offset(TIMER_TOPIC, 0) == sent
    assert_sound(disk / "store")
