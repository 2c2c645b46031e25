"""Imports go down: between rooms, between the folders of a room, and never in a circle."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tidy.source import PACKAGE, modules, name_of, parsed, room_of, walked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

# A room may import rooms of a lower level, and itself. Rooms of one level do not know one another.
LEVELS = {
    "errors": 0,
    "times": 0,  # the clock
    "texts": 0,  # sizes and times for people
    "halving": 0,  # searches by halves
    "nearest": 0,  # texts for errors about unknown names
    "config": 1,
    "arguments": 3,  # names of arguments and times among their values
    "formats": 2,
    "kernels": 3,
    "files": 4,
    "log": 5,
    "queue": 5,
    "index": 5,
    "dispatch": 5,
    "store": 6,
    "pipeline": 7,
    "connect": 8,
    "functions": 9,  # for Spark's columns
    "api": 9,  # the calls of the public face: joins store and pipeline
    "embedded": 10,  # MessageStore: the same for an open store
    "reput": 10,  # the public face itself
    "broker": 11,  # serves an open MessageStore
    "client": 11,  # talks to brokers
    "cli": 12,
    "__main__": 13,
}
# The folders inside a room, likewise: a module imports its own folder and those of a lower level.
# Modules of a room that lie in no folder are above them, but for those of `formats`, which its folders share.
FOLDER_LEVELS = {
    "broker": {"wire": 0, "state": 1, "services": 2, "handlers": 3, "grpc": 4, "": 5},
    "cli": {"shared": 0, "dump": 1, "get": 1, "pending": 1, "progress": 1, "put": 1, "": 2},
    "connect": {"options": 0, "cut": 1, "scan": 2, "sink": 2, "": 3},
    "formats": {
        "": 0,
        "java": 0,
        "database": 1,
        "topics": 1,
        "log": 2,
        "queue": 2,
        "config": 3,
        "pending": 4,
        "wire": 4,
        "index": 5,
        "own": 6,
    },
    "kernels": {"layouts": 0, "reference": 1, "compiled": 1, "": 2},
    "log": {"read": 0, "encode": 0, "append": 1},
    "pipeline": {"spark": 0, "split": 1, "build": 2, "check": 3, "convert": 3, "follow": 3},
    "pipeline/build": {
        "reorder": 0,
        "stages": 1,
        "index": 2,
        "queues": 2,
        "rocksdb": 2,
        "": 3,
        "grow": 4,
        "rebuild": 4,
    },
    "store": {
        "metadata": 0,
        "disk": 1,
        "owner": 2,
        "recover": 3,
        "progress": 3,
        "read": 4,
        "open": 5,
        "write": 6,
        "info": 4,
        "pending": 5,
        "compare": 7,
        "": 8,
    },
}
# Modules that may import folders above their own all the same, and why.
FOLDER_EXCEPT = {
    "pipeline/spark/worker_parent.py": "loads what tasks need before workers are forked",
}


class Import(NamedTuple):
    """One import of one of reput's rooms: its line, and the room that it names."""

    line: int
    room: str
    inside: bool


def imports_of(tree: ast.Module) -> Iterator[Import]:
    """All imports of reput's rooms, also those in functions and type-checking blocks."""
    top = set(map(id, tree.body))
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "reput":
            parts = node.module.split(".")
            rooms = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            rooms = [parts[1] if len(parts) > 1 else "reput" for parts in names if parts[0] == "reput"]
        else:
            continue
        yield from (Import(node.lineno, room, id(node) not in top) for room in rooms)


def arrows_up(path: Path, tree: ast.Module) -> Iterator[str]:
    """The imports of one module that the levels do not allow."""
    room = room_of(path)
    for found in imports_of(tree):
        place = f"{name_of(path)}:{found.line}"
        if found.room not in LEVELS:
            if not found.room.startswith("__"):
                yield f"{place}: reput.{found.room} has no level"
        elif found.room != room and LEVELS[found.room] >= LEVELS[room]:
            yield f"{place}: {room} must not know {found.room}"


def test_imports_go_down() -> None:
    """A module imports rooms below its own, and none beside or above."""
    face = PACKAGE / "__init__.py"
    # The public face may name everything, but only for type checkers and when it is asked.
    assert not [found for found in imports_of(parsed(face)) if not found.inside]
    others = [path for path in modules() if path != face]
    assert {room_of(path) for path in others} <= set(LEVELS), "give a new room a level, in the design's order"
    assert not [arrow for path in others for arrow in arrows_up(path, parsed(path))]


@pytest.mark.parametrize(
    ("module", "line", "allowed"),
    [
        ("kernels/x.py", "from reput.formats.log.record import MAGIC", True),
        ("kernels/x.py", "from reput.files import fs", False),
        ("queue/x.py", "import reput.index.files", False),
        ("queue/x.py", "def f():\n    from reput import store", False),
        ("store/x.py", "from reput import errors, log", True),
        ("store/x.py", "from reput.unheard import x", False),
        ("cli/x.py", "from reput import __version__", True),
        ("cli/x.py", "import reput", True),
        ("store/x.py", "import reput", False),
    ],
)
def test_arrows_are_seen(module: str, line: str, allowed: bool) -> None:
    """The rule above finds an arrow up in any form of import, and lets arrows down pass."""
    assert (not list(arrows_up(PACKAGE / module, ast.parse(line)))) == allowed


def folder_arrows_up(room: str, name: str, tree: ast.Module) -> Iterator[str]:
    """The folders of a room that one of its modules imports, and that are not below its own."""
    inner = name.removeprefix(f"{room}/").split("/")[:-1]
    levels, own, dotted_room = FOLDER_LEVELS[room], inner[0] if inner else "", f"reput.{room.replace('/', '.')}"
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{dotted_room}."):
            parts = str(node.module).removeprefix(dotted_room).split(".")[1:]
            named = parts[:1] if parts else [alias.name for alias in node.names]
            folders = [part if part in levels else "" for part in named]
            yield from (
                f"{name}:{node.lineno}: {own or room} must not know {folder or room}"
                for folder in folders
                if folder != own and levels[folder] >= levels[own]
            )


@pytest.mark.parametrize("room", sorted(FOLDER_LEVELS))
def test_folders_keep_their_levels(room: str) -> None:
    """Every module of a room with folders imports its own folder and those below."""
    found, levels = [], FOLDER_LEVELS[room]
    for path in (PACKAGE / room).rglob("*.py"):
        name = name_of(path)
        if path == PACKAGE / room / "__init__.py":
            continue
        inner = path.relative_to(PACKAGE / room).parts[:-1]
        assert (inner[0] if inner else "") in levels, f"{name}: which folder is it for?"
        arrows = list(folder_arrows_up(room, name, parsed(path)))
        assert bool(arrows) == (name in FOLDER_EXCEPT) or name not in FOLDER_EXCEPT, f"{name} keeps the rule"
        found += [] if name in FOLDER_EXCEPT else arrows
    assert not found


@pytest.mark.parametrize(
    ("room", "module", "line", "allowed"),
    [
        ("pipeline", "build/x.py", "from reput.pipeline.check.check import check_store", False),
        ("pipeline", "build/index/x.py", "from reput.pipeline import follow", False),
        ("pipeline", "build/x.py", "from reput.pipeline import split", True),
        ("pipeline/build", "index/x.py", "from reput.pipeline.build.stages.state import Build", True),
        ("pipeline/build", "index/x.py", "from reput.pipeline.build import publish", False),
        ("pipeline/build", "x.py", "from reput.pipeline.build.rebuild import rebuild", False),
        ("store", "read/x.py", "from reput.store import message_store", False),
        ("store", "message_store.py", "from reput.store.read.view import StoreView", True),
        ("broker", "handlers/x.py", "from reput.broker.services.broker import Broker", True),
        ("broker", "services/x.py", "if TYPE_CHECKING:\n    from reput.broker.handlers import sends", False),
        ("broker", "wire/x.py", "from reput.broker.server import BrokerServer", False),
        ("cli", "get/x.py", "from reput.cli.shared import output", True),
        ("cli", "get/x.py", "from reput.cli.put.lines import read_lines", False),
    ],
)
def test_arrows_between_folders_are_seen(room: str, module: str, line: str, allowed: bool) -> None:
    """The rule above finds an arrow up in any form of import."""
    assert (not list(folder_arrows_up(room, f"{room}/{module}", ast.parse(line)))) == allowed


def test_no_module_needs_itself() -> None:
    """Imports make no circle, in any module, folder or room; those for type checkers count, too."""
    names = {".".join(("reput", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in modules()}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    needs = {name: modules_named(parsed(path), names.keys()) - {name, "reput"} for name, path in names.items()}
    assert circle_of(needs) == []


def modules_named(tree: ast.Module, names: Collection[str]) -> set[str]:
    """The modules among `names` that a module imports."""
    found = set()
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and node.module in names:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner.intersection(names) | ({node.module} if inner.difference(names) else set())
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}.intersection(names)
    return found


def circle_of(needs: Mapping[str, set[str]]) -> list[str]:
    """The names of a circle, and those above it; nothing if there is an order."""
    left = {name: needed & needs.keys() for name, needed in needs.items()}
    while ready := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in ready:
            del left[name]
    return sorted(left)


def test_circles_are_seen() -> None:
    """The rule above finds a circle of any length, and lets an order pass."""
    names = {"a", "b", "b.c"}
    line = "if TYPE_CHECKING:\n    from b import c\n"
    assert modules_named(ast.parse(line), names) == {"b.c"}
    assert modules_named(ast.parse("from b import x"), names) == {"b"}
    assert circle_of({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c"]
    assert circle_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
