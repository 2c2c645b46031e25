"""The public face: what `import reput` gives, and what it does not load."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import reput
from support.processes import followed, writing

HEAVY = ("pyspark", "py4j", "numba", "llvmlite", "pyarrow", "pandas", "matplotlib")
SOURCE = Path(__file__).parents[1] / "src"


def loaded_by(code: str) -> set[str]:
    """Return the heavy packages that a fresh interpreter has loaded after running some code."""
    report = f"print('loaded', *[name for name in {HEAVY!r} if name in sys.modules])"
    body = textwrap.indent(code, "    ")
    script = f"import sys\ntry:\n{body}\nfinally:\n    {report}"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, cwd=SOURCE
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.splitlines()[-1].split()[1:])


def test_all_is_sorted_and_exact() -> None:
    """`__all__` lists each public name once, in order, and `dir` shows these and the version only."""
    assert list(reput.__all__) == sorted(set(reput.__all__))
    public = {name for name in dir(reput) if not name.startswith("_")}
    assert public == set(reput.__all__)


@pytest.mark.parametrize("name", reput.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    """Each name in `__all__` is there, says what it is, and is no module that leaked in."""
    value = getattr(reput, name)
    assert not isinstance(value, types.ModuleType)
    assert value.__doc__


def test_no_other_name_is_public() -> None:
    """A fresh `import reput` binds no public name but rooms that it had to import."""
    code = "import reput; print(*[n for n in vars(reput) if n[0] != '_' and n not in reput.__all__])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE)
    assert set(run.stdout.split()) <= {"TYPE_CHECKING", "Any", "annotations", "import_module"}


def test_errors_ask_for_public_names() -> None:
    """Each name that an error text asks a caller to give, such as `reput.Message`, is public."""
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    asked = {name for text in texts for name in re.findall(r"give a (reput\.[\w.]*\w)", text)}
    assert asked >= {"reput.Host", "reput.Message"}
    assert {name.removeprefix("reput.") for name in asked} <= set(reput.__all__)


def test_unknown_names_are_refused() -> None:
    """A name that reput does not have is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match="no_such_name"):
        reput.no_such_name  # noqa: B018


def test_every_error_is_a_reput_error() -> None:
    """All public exceptions share one root, so that one `except` catches what reput says."""
    errors = [getattr(reput, name) for name in reput.__all__ if name.endswith("Error")]
    assert reput.ReputError in errors
    assert all(issubclass(error, reput.ReputError) for error in errors)


def test_import_is_cheap() -> None:
    """`import reput` loads neither Spark nor numba nor Arrow."""
    assert loaded_by("import reput") == set()


def test_errors_and_config_are_cheap() -> None:
    """Catching reput's errors and making a StoreConfig load nothing heavy either."""
    assert loaded_by("import reput; reput.StoreConfig(); reput.ReputError") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["info", "--help"], ["dump", "--help"]], ids=" ".join)
def test_quick_verbs_are_cheap(arguments: list[str]) -> None:
    """The verbs that people try first start without Spark, numba and Arrow."""
    code = f"sys.argv = ['reput', *{arguments!r}]\nfrom reput.cli.main import main\nmain()"
    assert loaded_by(code) == set()


def test_package_is_typed() -> None:
    """py.typed makes type checkers use the annotations."""
    assert (Path(reput.__file__).parent / "py.typed").exists()


JOBS: dict[str, Callable[..., object]] = {
    "rebuild": reput.rebuild,
    "check": reput.check,
    "convert": partial(reput.convert, to="rocksdb"),
    "follow": reput.follow,
    "export": lambda path, **named: reput.export(path, path.parent / "out", **named),
}


@pytest.mark.parametrize("job", JOBS)
def test_spark_is_not_started_for_nothing(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job refuses a missing store and wrong settings before it starts Spark."""

    def start_context(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("reput.pipeline.spark.session.start_context", start_context)
    with pytest.raises(reput.NotAStoreError, match="no such folder"):
        JOBS[job](tmp_path / "nowhere")
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(reput.ConfigError):
        JOBS[job](tmp_path / "store", config=tmp_path / "none.conf")


@pytest.fixture
def small_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a message, where nothing may start Spark."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, create=True) as store:
        store.put_message(reput.Message("orders", b"body", keys="key"))
        store.reput()
    monkeypatch.setattr("reput.pipeline.spark.session.start_context", lambda *_, **__: pytest.fail("Spark was started"))
    return path


BUILDERS = [job for job in JOBS if job not in {"check", "export"}]


@pytest.mark.parametrize("job", BUILDERS)
def test_contradictions_were_refused_only_after_spark_had_started(job: str, small_store: Path) -> None:
    """A wrong size of files, and a broker.conf of another store, are refused before Spark starts."""
    for setting in ("mappedFileSizeConsumeQueue=8000", "storePathRootDir=/elsewhere"):
        with pytest.raises(reput.ConfigError, match=setting.partition("=")[0]):
            JOBS[job](small_store, config=reput.StoreConfig().updated([setting]))


def test_a_held_store_was_refused_only_after_spark_had_started(small_store: Path) -> None:
    """Beside a follower and its writer each job names the lock's holder before Spark starts, with its process id."""
    with writing(small_store) as writer, followed(small_store) as follower:
        for job in BUILDERS:
            pid = follower if job == "follow" else writer
            with pytest.raises(reput.StoreLockedError, match=rf"\b{pid}\b"):
                JOBS[job](small_store)


def test_another_follower_was_not_named(small_store: Path) -> None:
    """A second follower, a catch-up and a deletion name the process that follows the store."""
    with reput.MessageStore.open(small_store) as store, followed(small_store) as follower:
        words = rf"another process \({follower}\) follows this store"
        for call in (
            partial(reput.follow, small_store, spark=False),
            store.reput,
            partial(store.delete_topic, "orders"),
        ):
            with pytest.raises(reput.StoreLockedError, match=words):
                call()
