"""The walks in docs/architecture.md are true: a run enters their functions in the order of the page."""

from __future__ import annotations

import importlib
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

import reput
from reput.cli.main import run
from reput.connect.source import RocketmqSource
from reput.store import message_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
STEP = re.compile(r"\d+\. `([\w.]+)`: ")
MESSAGES = 50


def steps_of(title: str) -> list[str]:
    """The functions that a section of the page lists, in order."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##+ )", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE}: no section {title!r}"
    return STEP.findall(found[1])


def code_of(name: str) -> Any:
    """The code object of a function that is written `folder.module.function` or `folder.module.Class.method`."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(["reput", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            assert part in found.__dict__, f"{name}: there is no {part}"
            found = found.__dict__[part]
        found = getattr(found, "fget", None) or getattr(found, "__func__", found)
        while hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        return getattr(found, "callback", found).__code__
    raise AssertionError(f"{name}: no such module")


@contextmanager
def entered(codes: list[Any]) -> Iterator[None]:
    """Collect the code objects of all functions of the package that this thread enters, in order."""
    package = str(Path(reput.__file__).parent)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            codes.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def new_store(folder: Path) -> Path:
    """A store with some messages and their indexes."""
    with reput.MessageStore.open(folder, create=True) as store:
        for number in range(MESSAGES):
            store.put_message(reput.Message("orders", b"%d" % number, keys=f"k{number}"), queue_id=number % 2)
    return folder


def general_put(folder: Path, codes: list[Any]) -> None:
    """Put the first message of a writer: room must be made for it."""
    with reput.MessageStore.open(folder) as store, entered(codes):
        store.put_message(reput.Message("orders", b"one more", keys="k"), queue_id=0)


def ordinary_put(folder: Path, codes: list[Any]) -> None:
    """Put two messages to one queue, and note the second put."""
    with reput.MessageStore.open(folder) as store:
        store.put_message(reput.Message("orders", b"one more", keys="k"), queue_id=0)
        with entered(codes):
            put = store.put_message(reput.Message("orders", b"and more", keys="l"), queue_id=0)
        assert [message.body for message in store.get_message("orders", 0, put.queue_offset)] == [b"and more"]


def get(folder: Path, codes: list[Any]) -> None:
    """Get a message that was just put."""
    with reput.MessageStore.open(folder) as store:
        put = store.put_message(reput.Message("orders", b"one more", keys="k"), queue_id=0)
        with entered(codes):
            assert [message.body for message in store.get_message("orders", 0, put.queue_offset)] == [b"one more"]


def rebuild(folder: Path, codes: list[Any]) -> None:
    """Rebuild the indexes with the command, in this process."""
    with entered(codes):
        assert run(["rebuild", str(folder), "--no-spark", "--quiet"]) == 0


def spark_read(folder: Path, codes: list[Any]) -> None:
    """Plan and read as Spark does, in this process."""
    options = {"path": str(folder), "topic": "orders", "scan": "queue", "columns": "body,queueOffset"}
    schema = StructType([StructField("body", BinaryType()), StructField("queueOffset", LongType())])
    with entered(codes):
        reader = RocketmqSource(options).reader(schema)
        rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
    assert rows == MESSAGES


WALKS = {
    "An ordinary put": ordinary_put,
    "A put of any kind": general_put,
    "A get of a new message": get,
    "A rebuild from command to swap": rebuild,
    "A Spark read from options to Arrow batch": spark_read,
}


@pytest.mark.parametrize("title", WALKS)
def test_walks_are_true(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function that a walk lists is entered after the one before it, when the walk is run."""
    # The thread of an open store must not be the one that follows the log.
    monkeypatch.setattr(message_store, "_TICK_S", 60)
    steps, codes = steps_of(title), []
    assert len(steps) > 1
    walk: Callable[[Path, list[Any]], None] = WALKS[title]
    walk(new_store(tmp_path / "store"), codes)
    at = 0
    for before, step in zip(["the beginning", *steps], steps, strict=False):
        code = code_of(step)
        assert code in codes, f"{title}: {step} is never entered"
        assert code in codes[at:], f"{title}: {step} is not entered after {before}"
        at = codes.index(code, at) + 1


def test_an_ordinary_put_takes_no_other_way(tmp_path: Path) -> None:
    """An ordinary put enters the functions of its own section, and no further one that the general put lists."""
    codes: list[Any] = []
    ordinary_put(new_store(tmp_path / "store"), codes)
    ordinary = set(steps_of("An ordinary put"))
    assert {step for step in steps_of("A put of any kind") if code_of(step) in codes} <= ordinary


def test_a_wrong_walk_is_seen(tmp_path: Path) -> None:
    """Functions in another order are found out, and a name that is no function."""
    codes: list[Any] = []
    get(new_store(tmp_path / "store"), codes)
    first, *_, last = steps_of("A get of a new message")
    assert codes.index(code_of(first)) < codes.index(code_of(last))
    assert code_of(first) not in codes[codes.index(code_of(last)) :]
    with pytest.raises(AssertionError, match="there is no no_such_method"):
        code_of("store.message_store.LocalStore.no_such_method")


def test_every_folder_is_on_the_page() -> None:
    """The table of folders has each folder and each public module of the package once, and no other."""
    package = Path(reput.__file__).parent
    there = sorted(path.parent.relative_to(package).as_posix() for path in package.rglob("__init__.py"))
    section = PAGE.read_text().split("## Folders")[1].split("\n## ")[0]
    assert sorted([".", *re.findall(r"^\| `([\w/]+)` \|", section, re.MULTILINE)]) == there
    modules = sorted(path.name for path in package.glob("*.py") if not path.name.startswith("__"))
    assert sorted(re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)) == modules


@pytest.mark.parametrize("page", ["architecture.md", "contributing.md", "glossary.md"])
def test_modules_on_the_page_are_there(page: str) -> None:
    """Each path of a module on the page is one of the package, or of the repository."""
    tops = (Path(reput.__file__).parent, ROOT)
    named = re.findall(r"`([\w/]+/\w+\.py)`", (PAGE.parent / page).read_text("utf-8"))
    assert named
    assert [name for name in named if not any((top / name).is_file() for top in tops)] == []
