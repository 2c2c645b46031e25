"""An open store and the processes that are forked, or spawned, from the one that opened it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.files import fs
from reput.formats import paths
from reput.pipeline.spark.listener import ProgressListener
from support.checked import assert_sound
from support.forked import answer_of_child
from support.opened import CONFIG, bodies, put
from support.search import cases
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SYNC = replace(CONFIG, flush_disk_type="SYNC_FLUSH")
BUFFERED = replace(CONFIG, transient_store_pool_enable=True)
ROCKSDB = config_of("rocksdb", CONFIG)
FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
ONE = reput.Message("t", b"by a child")
FORKS = cases(3, 20)

_inherited: list[reput.MessageStore] = []
"""Stores that children find in their memory, as workers of a server find what its module has opened."""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The folder of a test's store, which is sound when the test is over."""
    yield tmp_path / "s"
    assert_sound(tmp_path / "s", CONFIG)


def names_of(kind: type) -> list[str]:
    """All that a user can ask an object of a class for."""
    return [name for name in dir(kind) if not name.startswith("_")]


def unrefused(thing: object, names: list[str]) -> list[str]:
    """Those of its names that can be used."""
    usable = []
    for name in names:
        with contextlib.suppress(reput.ForkedStoreError):
            getattr(thing, name)
            usable.append(name)
    return usable


def call_and_put(path: Path) -> int:
    """Do the work of a right worker: open the store itself, and put."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        return store.put_message(ONE).queue_offset


def count_in(path: Path) -> int:
    """Do the work of a right worker beside a writer: open the store itself, and read."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        return len(bodies(store))


def put_inherited(body: bytes) -> Any:
    """Do the work of a wrong worker: put by the store that its parent has opened."""
    return _inherited[0].put_message(reput.Message("t", body))


def test_a_forked_child_does_not_overwrite_what_its_parent_puts(path: Path) -> None:
    """Issue 12: both got PUT_OK for one place of the log, and the child's message was lost."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 3)
        answer = answer_of_child(lambda: store.put_message(ONE))
        assert answer.startswith("ForkedStoreError: ")
        assert str(path) in answer
        assert "reput.MessageStore.open(path)" in answer
        assert '"spawn"' in answer
        assert answer_of_child(lambda: count_in(path)) == "3"
        assert answer_of_child(lambda: call_and_put(path)).startswith("StoreLockedError: ")
        put(store, 3)
    assert answer_of_child(lambda: call_and_put(path)) == "6"
    assert count_in(path) == 7


@pytest.mark.parametrize("config", [CONFIG, SYNC, BUFFERED], ids=["async", "sync", "buffered"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_forked_child_can_use_nothing_of_a_store(config: reput.StoreConfig, read_only: bool, path: Path) -> None:
    """Every method and every value of a store raises in a child, and so do methods that were taken out before."""
    with reput.MessageStore.open(path, config, create=True) as store:
        put(store, 3)
        store.flush()
        with contextlib.ExitStack() as more:
            used = more.enter_context(reput.MessageStore.open(path, config, read_only=True)) if read_only else store
            taken = [used.put_message, used.get_message, used.flush, used.close, used.commit_offset, used.queues]
            found = used.get_message("t", 0, 0)

            def use() -> str:
                for method in taken:
                    with pytest.raises(reput.ForkedStoreError):
                        method(*[0] * 4) if method != used.flush else used.flush()  # type: ignore[operator]
                with pytest.raises(reput.ForkedStoreError), used:
                    pass
                # What has been read is the child's own.
                assert [message.body for message in found] == [b"0", b"1", b"2"]
                assert isinstance(used, reput.MessageStore)
                assert "MessageStore of process" in repr(used)
                return f"{unrefused(used, names_of(reput.MessageStore))}"

            assert answer_of_child(use) == "[]"
            assert len(bodies(used)) == 3
        put(store, 3)
        assert unrefused(store, ["put_message", "close"]) == ["put_message", "close"]


def test_setting_a_value_of_a_forked_copy_is_refused(path: Path) -> None:
    """A child can neither set nor delete an attribute of its parent's store."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:

        def change() -> str:
            with pytest.raises(reput.ForkedStoreError):
                store.view = None  # type: ignore[assignment]
            with pytest.raises(reput.ForkedStoreError):
                del store.view
            return "refused"

        assert answer_of_child(change) == "refused"
        put(store, 3)


def test_a_store_that_was_closed_before_is_closed_in_a_child(path: Path) -> None:
    """A child may close again what its parent has closed, as an exit handler does."""
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put(store, 1)
    store.close()
    assert answer_of_child(store.close) == "None"
    assert answer_of_child(lambda: store.put_message(ONE)).startswith("ClosedError: ")


WAYS_OUT = {
    "sys.exit in the block": "sys.exit(0)",
    "leaves the block": "left_block = True",
    "collects the store": "del store, others; gc.collect(); sys.exit(0)",
    "closes it": "try:\n    store.close()\nexcept reput.ForkedStoreError:\n    sys.exit(0)",
    "an error": "sys.stderr = open(os.devnull, 'w')\nos.close(2)\nraise RuntimeError",
}
EXITING = """
import atexit, gc, os, sys, time
import reput
sys.path.insert(0, {tests!r})
from support.opened import CONFIG, put, bodies
from dataclasses import replace
config = replace(CONFIG, store_type={kind!r})
left_block, parent = False, os.getpid()
atexit.register(lambda: None)
with reput.MessageStore.open({path!r}, config, create=True) as store:
    put(store, 5)
    store.reput(spark=False)
    put(store, 5, topic="later")
    store.put_message_async(reput.Message("t", b"5")).result()
    others = [reput.MessageStore.open({path!r}, config, read_only=True)]
    others.append(reput.follow({path!r}, spark=False, config=config))
    assert len(bodies(others[0])) == 6
    def held():
        try:
            reput.MessageStore.open({path!r}, config, create=True).close()
        except reput.StoreLockedError:
            return True
        return False
    for way in {ways!r}:
        child = os.fork()
        if child == 0:
            exec(way)
            break
        deadline = time.monotonic() + 60
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            assert time.monotonic() < deadline, way
            time.sleep(0.01)
        assert held(), way
        assert os.path.exists({path!r} + "/abort"), way
        put(store, 1, topic="later")
        assert len(bodies(others[0])) == 6
        assert others[1].is_active
    if os.getpid() == parent:
        others[1].stop()
        others[0].close()
if os.getpid() == parent:
    print("done")
else:
    sys.exit(0)
"""


@pytest.mark.parametrize("kind", ["default", "defaultRocksDB"])
def test_however_a_child_ends_the_store_stays_its_parents(kind: str, path: Path) -> None:
    """A child that exits, closes, or forgets the store unlocks nothing, flushes nothing, and does not hang."""
    folders = [str(Path(reput.__file__).parents[1]), str(Path(__file__).parents[1])]
    program = EXITING.format(tests=folders[1], path=str(path), kind=kind, ways=list(WAYS_OUT.values()))
    environment = {**os.environ, "PYTHONPATH": folders[0]}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
    assert not (path / paths.ABORT).exists()
    with reput.MessageStore.open(path, CONFIG if kind == "default" else ROCKSDB, read_only=True) as store:
        assert len(bodies(store, "later")) == 5 + len(WAYS_OUT)
    if kind != "default":
        assert_sound(path, ROCKSDB)


@pytest.mark.parametrize("config", [CONFIG, SYNC], ids=["async", "sync"])
def test_locks_that_other_threads_hold_at_a_fork_hold_up_no_child(config: reput.StoreConfig, path: Path) -> None:
    """Forks in the middle of puts, reads and flushes: a child refuses its copies, opens the store, reads, and ends."""
    stop = threading.Event()
    with (
        reput.MessageStore.open(path, config, create=True) as store,
        reput.MessageStore.open(path, config, read_only=True) as reader,
    ):
        put(store, 1)

        def work(call: Callable[[], object]) -> None:
            while not stop.wait(0.002):
                call()

        calls = [
            lambda: store.put_message(ONE),
            lambda: store.put_messages([ONE] * 3),
            lambda: store.commit_offset("g", "t", 0, 1),
            lambda: list(store.get_message("t", 0, 0)),
            lambda: reader.query_message("t", "none"),
            store.flush,
        ]
        # What is loaded first by a thread is Python's affair, and numba's.
        for call in calls:
            call()
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()

        def child() -> str:
            nonlocal store, reader
            refused = unrefused(store, ["put_message", "close"]) + unrefused(reader, ["get_message", "close"])
            del store, reader
            gc.collect()
            with reput.MessageStore.open(path, config, read_only=True) as own:
                return f"{refused} {len(own.get_message('t', 0, 0)) > 0}"

        try:
            assert [answer_of_child(child) for _ in range(FORKS)] == ["[] True"] * FORKS
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_a_child_does_not_wait_for_its_parents_flush(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A future that was open at the fork fails in the child, also for `wait`; the parent's own is kept."""
    go_on, true = threading.Event(), fs.sync_data
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        kept = store.put_message_async(ONE)
        kept.result()
        monkeypatch.setattr(fs, "sync_data", lambda descriptor: (go_on.wait(60), true(descriptor)))
        future = store.put_message_async(ONE)
        called: list[object] = []
        future.add_done_callback(called.append)

        def child() -> str:
            done, _ = concurrent.futures.wait([future], timeout=60)
            return f"{len(done)} {called} {type(future.exception(60)).__name__} {kept.result(60).queue_offset}"

        assert answer_of_child(child) == "1 [] ForkedStoreError 0"
        assert not future.done()
        go_on.set()
        assert future.result(60).queue_offset == 1
        assert called == [future]


def test_multiprocessing(path: Path) -> None:
    """Processes of multiprocessing, forked or spawned, open the store themselves; a forked one is asked to."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 3)
        _inherited[:] = [store]
        with ProcessPoolExecutor(1, mp_context=FORK) as pool:
            error = pool.submit(put_inherited, b"x").exception()
            assert isinstance(error, reput.ForkedStoreError)
            assert pool.submit(count_in, path).result() == 3
            # What is submitted is pickled.
            with pytest.raises(TypeError, match=r"a MessageStore cannot be pickled .* open the store in the other"):
                pool.submit(store.put_message, ONE).result()
        put(store, 1)
        process = FORK.Process(target=store.put_message, args=(ONE,))
        process.start()
        process.join()
        assert process.exitcode == 1
        with pytest.raises(TypeError, match="cannot be pickled"):
            SPAWN.Process(target=count_in, args=(store,)).start()
        put(store, 1)
    with FORK.Pool(1) as pool:
        assert pool.apply(call_and_put, (path,)) == 5
    assert count_in(path) == 6


def test_a_spawned_process_opens_the_store_by_its_path(path: Path) -> None:
    """Beside a writer it reads; messages that were read can be sent to it."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 3)
        with SPAWN.Pool(1) as pool:
            assert pool.apply(count_in, (path,)) == 3
            sent = pool.apply(list, (list(store.get_message("t", 0, 0)),))
        assert [message.body for message in sent] == [b"0", b"1", b"2"]


def test_what_cannot_be_pickled_says_what_to_do(path: Path) -> None:
    """Stores and results name the call to use instead; messages that were put or read are values."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        one = store.put_message(reput.Message("t", b"x", keys="k"))
        many = store.put_messages([ONE])
        with pytest.raises(TypeError, match=r"MessageStore\.open\(path, read_only=True\)"):
            pickle.dumps(store)
        for result in (store.get_message("t", 0, 0), store.query_message("t", "k")):
            with pytest.raises(TypeError, match=r"Send its messages: list\(result\)"):
                pickle.dumps(result)
            copy = pickle.loads(pickle.dumps(list(result)))[0]
            assert (copy.body, copy.keys, copy.physical_offset) == (b"x", ["k"], one.physical_offset)
        assert pickle.loads(pickle.dumps(one)) == one
        assert pickle.loads(pickle.dumps(many)).end_offset == many.end_offset
        with (
            reput.follow(path, spark=False, config=CONFIG) as follower,
            pytest.raises(TypeError, match="follows a store"),
        ):
            pickle.dumps(follower)


def test_a_server_forks_before_it_opens_the_store(path: Path) -> None:
    """A server's first worker opens the store to write, the others to read, as with gunicorn and celery."""
    reput.MessageStore.open(path, CONFIG, create=True).close()
    workers, readings = [], []
    for _ in range(3):
        reading, writing = os.pipe()
        readings.append(reading)
        worker = os.fork()
        if worker == 0:
            answer = b"failed"
            try:
                try:
                    with reput.MessageStore.open(path, CONFIG, create=True) as store:
                        put(store, 5)
                        os.write(writing, b"w")
                        time.sleep(0.5)
                        answer = b"5"
                except reput.StoreLockedError:
                    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
                        assert store.wait("t", 0, 4, 30)
                        answer = str(len(bodies(store))).encode()
            finally:
                os.write(writing, answer)
                os._exit(0)
        os.close(writing)
        workers.append(worker)
    answers = []
    for worker, reading in zip(workers, readings, strict=True):
        os.waitpid(worker, 0)
        with os.fdopen(reading, "rb") as pipe:
            answers.append(pipe.read())
    assert sorted(answers) == [b"5", b"5", b"w5"]


def test_a_server_that_opens_the_store_before_it_forks(path: Path) -> None:
    """Its workers' calls say what to do, and the server goes on putting."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        for _ in range(3):
            put(store, 1)
            answer = answer_of_child(lambda: [store.put_message(ONE) for _ in range(10)])
            assert answer.startswith("ForkedStoreError: ")
        assert len(bodies(store)) == 3


def test_a_followers_handle_stays_in_its_process(path: Path) -> None:
    """A child cannot wait for its parent's follower, nor stop it; a store that is followed is as any other."""
    with reput.MessageStore.open(path, CONFIG, follow=True, spark=False, create=True) as store:
        put(store, 20)
        handle = store.follower
        assert handle is not None
        names = [*names_of(type(handle)), "follow", "query", "until_caught_up"]
        assert answer_of_child(lambda: unrefused(handle, names)) == "[]"
        assert answer_of_child(handle.stop).startswith(f"ForkedStoreError: {path}: ")
        assert answer_of_child(lambda: unrefused(store, names_of(reput.MessageStore))) == "[]"
        assert handle.is_active
        put(store, 20)
    # What has ended is nobody's.
    assert answer_of_child(lambda: handle.is_active) == "False"


class Halting(ProgressListener):
    """Lets a job continue when the test says so."""

    def __init__(self) -> None:
        self.is_at_work, self.go_on = threading.Event(), threading.Event()

    def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as a listener has it
        """A stage of the job begins."""
        self.is_at_work.set()
        assert self.go_on.wait(60)


def test_a_fork_while_a_job_runs_leaves_the_job_alone(path: Path) -> None:
    """A child forked in the middle of a rebuild neither ends its lock nor changes what it builds."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 30)
    listener = Halting()
    job = threading.Thread(
        target=reput.rebuild, args=(path,), kwargs={"spark": False, "config": CONFIG, "listener": listener}
    )
    job.start()
    assert listener.is_at_work.wait(60)
    before = sorted(path.rglob("*"))
    assert answer_of_child(lambda: call_and_put(path)).startswith("StoreLockedError: ")
    assert answer_of_child(gc.collect).isdigit()
    assert sorted(path.rglob("*")) == before
    listener.go_on.set()
    job.join()


def test_a_fork_of_a_process_with_rocksdb_reads_and_does_not_write(tmp_path: Path) -> None:
    """RocksDB writes with threads that a fork does not have: it waited for them for ever."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, ROCKSDB, create=True) as store:
        put(store, 5)
        store.reput(spark=False)

        def read() -> int:
            with reput.MessageStore.open(path, ROCKSDB, read_only=True) as child:
                return len(bodies(child))

        assert answer_of_child(read) == "5"
        put(store, 5)
        assert len(bodies(store)) == 10

    def write() -> int:
        with reput.MessageStore.open(path, ROCKSDB, create=True) as child:
            return child.put_message(ONE).queue_offset

    answer = answer_of_child(write)
    assert answer.startswith("ForkedStoreError: ")
    assert '"spawn"' in answer
    assert answer_of_child(lambda: reput.rebuild(path, spark=False)).startswith("ForkedStoreError: ")
    assert_sound(path, ROCKSDB)
