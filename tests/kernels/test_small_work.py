"""Small questions are answered by the plain kernels: numba is never loaded, and no answer is another one."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import reput
from reput import kernels
from reput.kernels import (
    COMPILED,
    REFERENCE,
    SMALL_BYTES,
    SWITCH,
    PlainMeanwhile,
    expect_work,
    kind_in_use,
    lasting_kind,
    small_work,
)
from support import golden, stores
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

TOPICS, ROUNDS = 30, 60


@pytest.fixture
def _without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the state at the beginning of a command: no kernel is chosen, and none is loaded."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)


@pytest.mark.usefixtures("_without_numba")
def test_small_work_takes_the_plain_ones() -> None:
    """Inside the block the plain kernels serve until there is more to decode; after it all is as before."""
    with small_work():
        assert kind_in_use() == REFERENCE
        expect_work(SMALL_BYTES - 1)
        assert kind_in_use() == REFERENCE
        expect_work(1)
        assert kind_in_use() == COMPILED
    with small_work():
        assert kind_in_use() == REFERENCE
    assert kind_in_use() == COMPILED


@pytest.mark.usefixtures("_without_numba")
def test_a_block_inside_a_block_changes_nothing() -> None:
    """A block inside another one neither adds to the bytes that are left nor ends them."""
    with small_work():
        expect_work(SMALL_BYTES - 1)
        with small_work():
            assert kind_in_use() == REFERENCE
        assert kind_in_use() == REFERENCE
        expect_work(1)
        with small_work():
            assert kind_in_use() == COMPILED
        assert kind_in_use() == COMPILED


@pytest.mark.usefixtures("_without_numba")
def test_a_named_kind_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that REPUT_KERNELS names, or a numba that is loaded, is not changed by small work."""
    monkeypatch.setenv(SWITCH, COMPILED)
    with small_work():
        assert kind_in_use() == COMPILED
    monkeypatch.delenv(SWITCH)
    monkeypatch.setitem(sys.modules, "numba", sys)
    with small_work():
        assert kind_in_use() == COMPILED


@pytest.mark.usefixtures("_without_numba")
def test_the_plain_ones_serve_while_a_thread_loads_the_others() -> None:
    """Only the thread that loads has the compiled ones, until it is done; what is kept for long waits for them."""
    assert lasting_kind() is None
    PlainMeanwhile.begin()
    loading, done = threading.Event(), threading.Event()
    kinds: list[str] = []

    def load() -> None:
        with PlainMeanwhile.loading():
            kinds.append(kind_in_use())
            loading.set()
            done.wait()

    thread = threading.Thread(target=load)
    thread.start()
    loading.wait()
    during = kind_in_use(), lasting_kind()
    done.set()
    thread.join()
    assert (kinds, during) == ([COMPILED], (REFERENCE, COMPILED))
    assert kind_in_use() == COMPILED


@pytest.mark.usefixtures("_without_numba")
def test_a_thread_that_loads_got_the_plain_ones_from_small_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a thread that loads, small work has the plain kernels; that thread has the others."""
    monkeypatch.setitem(sys.modules, "numba", sys)
    kinds: list[str] = []
    with PlainMeanwhile.loading():
        kinds.append(kind_in_use())
        with small_work():
            kinds.append(kind_in_use())
            other = threading.Thread(target=lambda: kinds.append(kind_in_use()))
            other.start()
            other.join()
    assert kinds == [COMPILED, COMPILED, REFERENCE]


@pytest.mark.usefixtures("_without_numba")
def test_much_work_does_not_wait_for_the_thread_that_loads() -> None:
    """After SMALL_BYTES of log, or when loading is given up, the compiled ones serve."""
    PlainMeanwhile.begin()
    expect_work(SMALL_BYTES - 1)
    assert kind_in_use() == REFERENCE
    expect_work(1)
    assert kind_in_use() == COMPILED
    PlainMeanwhile.begin()
    PlainMeanwhile.end()
    assert kind_in_use() == COMPILED


def contents(path: Path) -> dict[tuple[str, int], list[bytes]]:
    """Every queue with its messages."""
    with reput.MessageStore.open(path, stores.SMALL, read_only=True) as store:
        return {
            (one.topic, one.queue_id): [
                # A pull does not go over a queue file's end.
                store.get_message(one.topic, one.queue_id, offset, 1)[0].body
                for offset in range(one.max_offset)
            ]
            for one in store.queues()
        }


@pytest.mark.parametrize("small_bytes", [1, 20_000, 1 << 30])
def test_a_change_in_the_middle_changes_no_answer(
    small_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tail that the plain kernels begin and the compiled ones go on with holds what one kind alone gives."""
    monkeypatch.delenv(SWITCH, raising=False)
    with reput.MessageStore.open(tmp_path, stores.SMALL, create=True) as store:
        for number in range(ROUNDS):
            store.put_messages([reput.Message(f"t{topic}", b"%d" % number) for topic in range(TOPICS)])
        store.close(reput=False)
    expected = contents(tmp_path)
    assert len(expected) == TOPICS
    assert all(bodies == [b"%d" % number for number in range(ROUNDS)] for bodies in expected.values())
    monkeypatch.setattr("reput.log.read.scan.SMALL_STEP", 5_000)
    monkeypatch.setattr(kernels._SmallWork, "left", small_bytes)
    assert contents(tmp_path) == expected


HEAVY = ("numba", "pyspark", "py4j", "pyarrow", "pandas", "rich", "rocksdict", "sqlglot")
WRITING = ("reput.store.write.writing", "reput.log.append.append", "reput.log.append.flush", "reput.store.owner.owner")
"""Modules that only a store that is opened to write needs."""
SELDOM = ("reput.dispatch.sql", "reput.queue.rocksdb_kind", "reput.store.progress.consumer_filters")
"""Modules that are loaded for a SQL92 filter, or for a store that has its queues in RocksDB."""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], (*HEAVY, *WRITING, *SELDOM, "numpy", "reput.store")),
        (["get", "--help"], (*HEAVY, *WRITING, *SELDOM, "numpy", "reput.store")),
        (["get", "STORE", "-t", "orders", "-c", "1"], (*HEAVY, *WRITING, *SELDOM, "reput.store.progress.progress")),
        (["query", "STORE", "-t", "orders", "--key", "no such key"], (*HEAVY, *WRITING, *SELDOM)),
        (["offset", "STORE", "-t", "orders"], (*HEAVY, *WRITING, *SELDOM)),
        (["progress", "STORE"], (*HEAVY, *WRITING, *SELDOM)),
        (["info", "STORE"], (*HEAVY, *WRITING, *SELDOM, "reput.files.database")),
        (["put", "STORE", "-t", "orders", "-q", "0"], ("numba", "pyspark", "sqlglot")),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_start_loads_what_it_needs(arguments: list[str], absent: tuple[str, ...], tmp_path: Path) -> None:
    """A start took 0.9 s, most of it for modules that the question did not need."""
    store = golden.unpack("basic", tmp_path)
    given = [str(store) if argument == "STORE" else argument for argument in arguments]
    code = (
        "import sys; from reput.cli import main; code = main.run(sys.argv[1:]); "
        f"print(*sorted(set({absent!r}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *given], check=False, input=b"a line\n", capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().splitlines()[-1] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "STORE", "-t", "orders", "-q", "0", "-c", "1"],
        ["query", "STORE", "-t", "orders", "--key", "no such key"],
        ["offset", "STORE", "-t", "orders"],
        ["progress", "STORE"],
        ["put", "STORE", "-t", "orders", "-q", "0"],
        ["info", "STORE"],
        ["dump", "log", "STORE", "-c", "1"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_small_question_loads_no_numba(arguments: list[str], tmp_path: Path) -> None:
    """Start-up was mostly the loading of compiled kernels: a small question does without, and so does a put."""
    store = golden.unpack("basic", tmp_path)
    arguments = [str(store) if argument == "STORE" else argument for argument in arguments]
    code = (
        "import sys; from reput.cli import main; code = main.run(sys.argv[1:]); "
        "sys.exit(code or (100 if 'numba' in sys.modules else 0))"
    )
    # Its indexes are the broker's: the checkpoint that the broker wrote counts, so little is decoded.
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=False, input=b"a line\n", capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    if arguments[0] == "put":
        assert_sound(store, stores.GOLDEN)
