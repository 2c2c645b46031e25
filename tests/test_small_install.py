"""An install without the extra `spark`: everything but jobs on Spark works, and those say what to install."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from support import golden, stores

if TYPE_CHECKING:
    from pathlib import Path

# Python finds neither package, as where they are not installed.
WITHOUT_PYSPARK = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


def run_without_pyspark(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own that has no PySpark."""
    script = WITHOUT_PYSPARK + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def test_an_embedded_store_needs_no_pyspark(tmp_path: Path) -> None:
    """Put, get, look up by key, build indexes and follow work without PySpark."""
    done = run_without_pyspark(
        """
        import reput

        with reput.MessageStore.open(sys.argv[1], create=True, follow=True, spark=False) as store:
            store.put_message(reput.Message("orders", b"an apple", keys="o-1"))
            assert [message.body for message in store.get_message("orders", 0, 0)] == [b"an apple"]
            assert [message.body for message in store.query_message("orders", "o-1")] == [b"an apple"]
        with reput.MessageStore.open(sys.argv[1], create=True) as store:
            store.put_message(reput.Message("orders", b"a pear"))
            store.reput(spark=False)
        assert reput.check(sys.argv[1], spark=False).sound
        """,
        tmp_path / "store",
    )
    assert done.returncode == 0, done.stderr


def test_without_pyspark_jobs_run_in_this_process(tmp_path: Path) -> None:
    """Jobs run without Spark if PySpark is not installed and nothing asks for it; `prepare` compiles the kernels."""
    store = golden.unpack("basic", tmp_path)
    done = run_without_pyspark(
        """
        from reput.cli.main import run

        store, folder = sys.argv[1:]
        for arguments in (
            ["rebuild", store, "--quiet"],
            ["convert", store, "--to", "both", "--quiet"],
            ["check", store, "--quiet"],
            ["export", store, "--folder", folder],
            ["follow", store, "--until-caught-up"],
        ):
            assert run(arguments) == 0, arguments
        assert run(["prepare"]) == 0
        """,
        store,
        tmp_path / "lake",
    )
    assert done.returncode == 0, done.stderr
    assert "PySpark is not installed" in done.stderr


@pytest.mark.parametrize("verb", ["rebuild", "check", "follow"])
def test_a_job_on_spark_says_what_to_install(verb: str, tmp_path: Path) -> None:
    """A job that was asked to run on Spark is refused, and the store stays as it is."""
    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store)
    done = run_without_pyspark(
        f"""
        from reput.cli.main import run

        sys.exit(run([{verb!r}, sys.argv[1], "--spark"]))
        """,
        store,
    )
    assert done.returncode == 2
    assert "pip install 'reput[spark]'" in done.stderr
    assert "--no-spark" in done.stderr
    assert "Traceback" not in done.stderr
    assert stores.digest(store) == before


def test_python_calls_say_what_to_install(tmp_path: Path) -> None:
    """`reput.follow`, `reput.register` and a job with a master raise an EngineError that names the extra."""
    store = golden.unpack("basic", tmp_path)
    done = run_without_pyspark(
        """
        from functools import partial

        import reput

        on_spark = partial(reput.rebuild, master="local[2]")
        for call, argument in ((on_spark, sys.argv[1]), (reput.follow, sys.argv[1]), (reput.register, None)):
            try:
                call(argument)
            except reput.EngineError as error:
                assert "reput[spark]" in str(error), error
            else:
                raise AssertionError("no error")
        """,
        store,
    )
    assert done.returncode == 0, done.stderr
