"""Rebuilds that are killed, or refused by the system, at a chosen call. Each job is a fork of one process.

    with FaultyRebuilds() as faulty:
        outcome = faulty.run(store, "rename", at=3)                 killed instead of the third rename
        outcome = faulty.run(store, "pwrite", at=2, what="torn")    killed in the middle of the second write
        outcome = faulty.run(store, "pwrite", at=2, what="ENOSPC")  the second write fails
        outcome = faulty.run(store, "pwrite")                       nothing happens; outcome.calls are counted
        outcome = faulty.run(store, "pwrite", to="rocksdb")         a conversion; golden=True: of a golden store
        outcome = faulty.run(store, "rename", finish=True)          no job: a swap under way is finished

The functions are those of `reput.files.fs`, which makes all of reput's calls about files.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED, FAILED, DONE = "killed", "failed", "done"
KILLED_STATUS = 77


class Outcome(NamedTuple):
    """The end of a job: `how` is done, failed or killed; the error's class and text; calls of the function."""

    how: str
    error: str = ""
    text: str = ""
    calls: int = 0


class FaultyRebuilds:
    """The process that runs the jobs; see the module's docstring."""

    def __init__(self) -> None:
        import reput

        folders = (Path(__file__).parents[1], Path(reput.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.faults"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self,
        store: Path,
        function: str = "rename",
        *,
        at: int = 0,
        what: str = "kill",
        user: int | None = None,
        **options: Any,
    ) -> Outcome:
        """Rebuild `store` with the stores' small settings, or convert it; the `at`th call of `function` meets its fate.

        `what` is `kill` (instead of the call), `killed after` it, `torn` (half of a write is made first), or an
        errno's name. `user` is the id of the user to run as.
        """
        job = {"store": str(store), "function": function, "at": at, "what": what, "user": user}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**job, "options": options}) + "\n")
        self._process.stdin.flush()
        return Outcome(*json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve() -> None:
    """Run each job of stdin in a fork; answer with its outcome on stdout."""
    from reput.kernels.warm import warm_kernels, warm_table_kernels

    warm_kernels()
    warm_table_kernels()
    _load()
    gc.freeze()
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(json.loads(line), writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == KILLED_STATUS:
            answer = json.dumps([KILLED])
        sys.stdout.write((answer or json.dumps([FAILED, "Crash", str(status)])) + "\n")
        sys.stdout.flush()


def _load() -> None:
    """Do a job of each sort on a small store: what it loads is loaded once, not in each fork."""
    from reput.formats.log.record import FLAG_INNER_BATCH
    from support import stores
    from support.records import LogBuilder

    with tempfile.TemporaryDirectory() as folder:
        log = LogBuilder(4096)
        log.message("a", keys="k", tags="t")
        log.message("b", sys_flag=FLAG_INNER_BATCH, more={"INNER_NUM": "1", "INNER_BASE": "0"})
        stores.rebuild(stores.with_log(Path(folder), log))
        import reput.pipeline.convert.convert  # noqa: F401


def _work(job: dict[str, Any], writing: int) -> None:
    import reput
    from reput.errors import ReputError
    from reput.store.disk.layout import find_store
    from reput.store.owner import swap
    from support import stores

    # What a collection touches would be copied, and this process does not live long.
    gc.disable()
    count = spoil(job["function"], job["at"], job["what"])
    try:
        if job["user"] is not None:
            os.setgroups([])
            os.setgid(job["user"])
            os.setuid(job["user"])
        options = job["options"]
        if "to" in options:
            # Before a fork nobody has opened a RocksDB: its threads do not live on in one.
            config = stores.GOLDEN if options.pop("golden", False) else stores.SMALL
            reput.convert(job["store"], spark=False, config=config, **options)
        elif "finish" in options:
            swap.finish_swap(find_store(job["store"], stores.SMALL), lambda: None)
        else:
            stores.rebuild(Path(job["store"]), **options)
        answer = Outcome(DONE, calls=count())
    except ReputError as error:
        answer = Outcome(FAILED, type(error).__name__, str(error), count())
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
        answer = Outcome(FAILED, f"unexpected {type(error).__name__}", str(error), count())
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def spoil(function: str, at: int, what: str, status: Callable[[], int] = lambda: KILLED_STATUS) -> Callable[[], int]:
    """Replace a function of the file seam by one whose `at`th call meets its fate; return a reader of the count.

    `what` is one of those of `FaultyRebuilds.run`. A process that dies exits with `status`.
    """
    from reput.files import fs

    true = getattr(fs, function)
    calls = 0

    def spoiled(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != at:
            return true(*arguments, **named)
        if what == "torn":
            descriptor, data, offset = arguments
            true(descriptor, memoryview(data)[: len(data) // 2], offset)
        elif what == "killed after":
            true(*arguments, **named)
        elif what != "kill":
            number = getattr(errno, what)
            refusal = OSError(number, os.strerror(number))
            if function == "pwrite":
                raise refusal
            # All others name what they were doing themselves.
            with fs.errors_named("somewhere", function):
                raise refusal
        os._exit(status())

    setattr(fs, function, spoiled)
    return lambda: calls


if __name__ == "__main__":
    serve()
