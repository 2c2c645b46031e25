"""The house rules that ruff and mypy do not know: arrows between rooms, who touches files, sizes, words."""

from __future__ import annotations

import ast
import functools
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.formats.log import properties, property_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reput"
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

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

# Calls that change files or hold descriptors, each with what to use instead: only files/ makes them.
FILES_ONLY = {
    "fcntl.flock": "files.locks",
    "fcntl.lockf": "files.locks",
    "mmap.mmap": "files.fs.mapped",
    "np.memmap": "files.fs.mapped",
    "os.fdatasync": "files.fs.sync",
    "os.fsync": "files.fs.sync",
    "os.ftruncate": "files.fs.open_sized",
    "os.makedirs": "files.fs.make_dirs",
    "os.mkdir": "files.fs.make_dirs",
    "os.open": "files.fs.open_sized",
    "os.pwrite": "files.fs.pwrite",
    "os.remove": "files.fs.remove_file",
    "os.rename": "files.fs.rename",
    "os.replace": "files.fs.rename",
    "os.rmdir": "files.fs.remove_tree",
    "os.truncate": "files.fs.open_sized",
    "os.unlink": "files.fs.remove_file",
    "os.write": "files.fs.pwrite",
    "shutil.copy": "files.fs.write_whole",
    "shutil.copyfile": "files.fs.write_whole",
    "shutil.copytree": "files.fs.make_dirs and write_whole",
    "shutil.move": "files.fs.rename",
    "shutil.rmtree": "files.fs.remove_tree",
}
# The same as methods of pathlib.Path, whatever the variable is called.
FILES_ONLY_METHODS = {
    "mkdir": "files.fs.make_dirs",
    "touch": "files.fs.write_whole",
    "unlink": "files.fs.remove_file",
    "write_bytes": "files.fs.write_whole",
    "write_text": "files.fs.write_whole",
}
# Modules outside files/ that may make such calls all the same, and why.
FILES_ONLY_EXCEPT = {
    "cli/main.py": "opens the null device in place of a closed stdout",
    "cli/shared/output.py": "points stdout to the null device when nobody reads it",
    "pipeline/spark/worker_parent.py": "opens the null device in place of the pipes that it has handed over",
    "kernels/compiled/cache.py": "numba's cache beside the source, below files/; no store is touched",
}

# Calls that would run what data says, and modules that would make objects of it: messages and files are data.
NO_CODE_OF_DATA = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "importlib.import_module"}
NO_CODE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "code", "jsonpickle"}
# What may do so all the same, and why.
CODE_EXCEPT = {
    "pipeline/spark/engine.py": "tasks and their results, between Spark's driver and its workers",
}

# Functions that may be longer than that, how long, and why. A ratchet: lower it, never raise it.
LONG_FUNCTIONS = {
    ("kernels/compiled/decode.py", "decode_range"): (
        86,
        "one compiled loop; calls in it would cost a third",
    ),
}

# Rooms that know kinds of queues by what they can do (`queue/kinds.py`), and the modules that list the kinds for them.
KINDS_UNNAMED = ("store", "pipeline", "connect", "cli")
KINDS_UNNAMED_MODULES = ("queue/combined.py", "queue/kinds.py", "queue/placement.py")
"""Modules of other rooms for which the same holds."""
KINDS_LISTED = {
    "store/disk/kinds.py": "which kinds a store has",
    "store/read/kinds.py": "the queues of an open store for each, and what answers about them",
    "connect/cut/disk_queues.py": "what Spark's plans and tasks ask of each",
    "pipeline/build/kinds.py": "what the driver of a job that builds does for each",
    "pipeline/check/kinds.py": "what a check does for each",
    "pipeline/split/sinks.py": "what a job's tasks do for each",
    "pipeline/spark/worker_parent.py": "loads what tasks need before workers are forked",
}
KIND_NAMES = re.compile(
    r"(?i:file_kind|rocksdb|batch_kind)|\b(?:FILE|FileKind|FileQueues?|BATCHES)\b"
    r"|\bBatch(?:Kind|Queues?|QueueFiles|Builder|Sink|Check|Reader)\b"
)
# The same for kinds of index (`index/kinds.py`).
INDEX_KINDS_LISTED = {
    "store/disk/index_kinds.py": "which kinds a store has",
    "pipeline/split/index_sinks.py": "what a job's tasks leave for each",
    "pipeline/build/index/kinds.py": "what a job that builds does for each",
    "pipeline/build/index/database.py": "about the index database alone",
    "pipeline/build/rebuild/dry_run.py": "estimates the items of one kind and the entries of the other",
    "pipeline/check/index_kinds.py": "what a check does for each",
}
LISTS_OF_KINDS = [name for name in KINDS_LISTED if name != "pipeline/spark/worker_parent.py"]
INDEX_KIND_NAMES = {"INDEX_FILES", "INDEX_DATABASE", "FileIndex", "DatabaseIndex"}
# What is about one kind says so in its name.
OF_ONE_KIND = re.compile(r"rocksdb|_files\.py$|/batch\w*\.py$")

# Docstrings begin with a verb or a noun, not with one of these.
NO_BEGINNING = re.compile(r"(?:What|Whether|Where|Which|How|Who|Whose|Whoever|Whatever|When|If|So|As|That)\b")
# Words that only this project used, and what its sentences say instead.
PRIVATE_WORDS = {
    "behind": "after, above, later than; a group lags",
    "crooked": "out of order",
    "held against": "compared with",
    "in front of": "before, below",
    "(?<!there )(?:is|are|was|were) (?-i:none)(?! of)": "is no number, is not one",
    "newcomer": "new queue, new writer",
    "nursery": "preloaded worker parent",
    "runs? straight": "consecutive",
    "so many": "n, that number",
    "stands?": "is, lies",
    "tells?": "says, reports, returns",
    "told": "reported, given, known from",
    "whoever": "callers, clients",
}
PRIVATE = re.compile(rf"(?i)(?<![a-z])(?:{'|'.join(PRIVATE_WORDS)})(?![a-z])")
# Public names, and old names of arguments, that keep such a word until the next version; and names of tests, to which
# pages and tables refer.
PUBLIC_NAMES = re.compile(r"behind_bytes|crooked_queues|\[.behind.\]|\bbehind\(|\.behind\b|\btell=|.tell.:|\btest_\w+")
OUTSIDE = ("tests", "bench", "scripts", "examples")
"""Folders outside the package whose sentences keep the same rule."""

SNAKE_NAME = re.compile(r"(?<!\w)_?[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?!\w)")

# Spelt apart, so that this file passes its own rule.
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")
MACHINE_PATH = re.compile(r"(?<![\w.*/])/(?:work|tmp|root|home|opt)/")
TEXTS = (".py", ".md", ".toml", ".sh", ".java", ".properties", ".txt", ".xml", "")


class Import(NamedTuple):
    """One import of one of reput's rooms: its line, and the room that it names."""

    line: int
    room: str
    inside: bool


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Parse a module, once for all rules."""
    return ast.parse(path.read_text())


@functools.cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """List the nodes of a tree, once for all rules."""
    return list(ast.walk(tree))


def name_of(path: Path) -> str:
    """A module's path inside the package, as the tables above write it."""
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    """The room that a module belongs to: its top folder, or its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


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


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an expression made of names; what is no name, such as a call, counts as empty."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def is_writing_open(call: ast.Call) -> bool:
    """Return true if a call opens a file for writing, by `open(...)` or by a path's method."""
    if dotted(call.func).rsplit(".", 1)[-1] != "open":
        return False
    modes = [arg for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    modes += [word.value for word in call.keywords if word.arg == "mode" and isinstance(word.value, ast.Constant)]
    return any(re.fullmatch(r"[rwaxbt+]*[wax+][rwaxbt+]*", str(mode.value)) for mode in modes)


def forbidden_calls(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The calls that only files/ may make: line, call, what to use instead."""
    for node in walked(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        method = name.rpartition(".")[2]
        if name in FILES_ONLY:
            yield node.lineno, name, FILES_ONLY[name]
        elif "." in name and method in FILES_ONLY_METHODS:
            yield node.lineno, name, FILES_ONLY_METHODS[method]
        elif is_writing_open(node):
            yield node.lineno, f"{name} for writing", "files.fs.write_whole or open_sized"


def kinds_named(tree: ast.Module) -> Iterator[str]:
    """The names, imports and texts (but for docstrings and help, which are prose) that name a kind."""
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom):
            found = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.Name):
            found = [node.id]
        elif isinstance(node, ast.Attribute) and dotted(node).startswith("queue_kinds."):
            found = [node.attr]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found = [node.value]
        else:
            continue
        yield from (name for name in found if KIND_NAMES.search(name))


def index_kinds_named(tree: ast.Module) -> Iterator[str]:
    """The names of kinds of index that a module imports; paths of the same name do not count."""
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "reput.formats.paths":
            yield from (alias.name for alias in node.names if alias.name in INDEX_KIND_NAMES)


def functions_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every function of a module with the number of lines from `def` to its end."""
    for node in walked(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def texts() -> Iterator[Path]:
    """Every file of ours that people read."""
    for top in ("src", "tests", "bench", "demo", "docs", "scripts", ".ci"):
        for path in sorted((ROOT / top).rglob("*")):
            inside = path.relative_to(ROOT).parts
            if path.is_file() and path.suffix in TEXTS and not {"target", "work", "__pycache__"} & set(inside):
                yield path
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml"))


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


PROPERTY_HOMES = ("formats/log/properties.py", "formats/log/property_names.py")
"""The modules that spell the names of properties, as bytes and as text."""
PROPERTY_NAMES = {
    value if isinstance(value, str) else value.decode()
    for home in (properties, property_names)
    for name, value in vars(home).items()
    if name.isupper() and isinstance(value, str | bytes) and not name.endswith(("_END", "_SEPARATOR"))
}
NO_PROPERTY = {
    "broker/state/attributes.py": {"DELAY"},  # a kind of topic
}


def property_literals(tree: ast.Module) -> set[str]:
    """The names of properties that a module spells itself, or decodes."""
    found = set()
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            found.add(node.value if isinstance(node.value, str) else node.value.decode("latin-1"))
        elif isinstance(node, ast.Call) and dotted(node.func).startswith(("props.", "properties.")):
            found |= {dotted(node.func).split(".")[1]} if dotted(node.func).endswith(".decode") else set()
    return found & PROPERTY_NAMES


def test_names_of_properties_have_one_home() -> None:
    """Modules take the names of properties from `formats`, as bytes or as text."""
    found = {
        name_of(path): property_literals(parsed(path)) for path in modules() if name_of(path) not in PROPERTY_HOMES
    }
    assert {name: literals for name, literals in found.items() if literals} == NO_PROPERTY


def test_names_of_properties_are_seen() -> None:
    """The rule above finds text, bytes and a name that is decoded, and lets other words pass."""
    assert property_literals(ast.parse("a = 'TAGS', b'KEYS', props.DELAY.decode(), 'tags', f'TAGS={1}'")) == {
        "TAGS",
        "KEYS",
        "DELAY",
    }


LAYOUT_CODE = re.compile(r"[<>](?:\d*[a-zA-Z?]\d*)+")
LAYOUTS_EXCEPT = {
    "files/watermarks.py": "a mapped page of words that are all alike",
    "index/files.py": "words of an IndexFile whose parts are not known yet",
}
"""Modules that may write a number's place or size as a code all the same, and why."""


def layout_codes(tree: ast.Module) -> list[str]:
    """The codes of `struct` and numpy, with a byte order, that a module spells itself."""
    texts = [node.value for node in walked(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if LAYOUT_CODE.fullmatch(text)]


def test_layouts_have_one_home() -> None:
    """No module outside formats spells the bytes of a number: sizes, offsets and byte order come from a `Layout`."""
    found = {name_of(path) for path in modules() if room_of(path) != "formats" and layout_codes(parsed(path))}
    assert found == LAYOUTS_EXCEPT.keys()


def test_codes_of_layouts_are_seen() -> None:
    """The rule above knows codes from other texts."""
    line = "a = struct.Struct('>ii'), b.view('>i8'), np.dtype('<u4'), f'>{x}', '<=', '<html>', '> 5', 'i8', '>4sHI'"
    assert sorted(layout_codes(ast.parse(line))) == ["<u4", ">4sHI", ">i8", ">ii"]


def test_no_byte_of_a_field_is_computed_by_hand() -> None:
    """The byte of a field in a record of words comes from `word_address`, `word` and `set_word`."""
    by_hand = re.compile(r"\b8 \* \w+At\.|At\.\w+ \* 8\b")
    assert by_hand.search("batch + 8 * BatchAt.body")
    assert not [name_of(path) for path in modules() if by_hand.search(path.read_text())]


HALVING_EXCEPT = {
    "halving.py": "has the search",
    "kernels/compiled/lookup.py": "numba compiles the loop, which keeps the times of its first steps",
    "kernels/compiled/many.py": "takes one step of each of many searches at once",
    "kernels/reference/lookup.py": "ends in the middle of a search with the number of a file to map",
}
"""Modules that may search by halves themselves, and why."""


def halvings(tree: ast.Module) -> list[str]:
    """The middles that a module computes, and its calls of `bisect` over something else than a sequence of values."""
    found = []
    for node in walked(tree):
        is_half = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.RShift)
        if is_half and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add):
            found += [ast.unparse(node)] if ast.unparse(node.right) in ("1", "2") else []
        if (
            isinstance(node, ast.Call)
            and "bisect" in dotted(node.func)
            and any(one.arg == "key" for one in node.keywords)
        ):
            found.append(ast.unparse(node))
    return found


def test_the_search_by_halves_has_one_home() -> None:
    """Modules search by halves with `halving`; those that cannot are listed with their reason."""
    assert {name_of(path) for path in modules() if halvings(parsed(path))} == HALVING_EXCEPT.keys()


def test_halvings_are_seen() -> None:
    """The rule above finds a middle and a search with a key, and lets other halves and searches pass."""
    line = "a = (low + high) // 2, x // 2, (p + q) >> 1, (p + q) // 3, bisect_left(n, 1), bisect_left(n, 1, key=f)"
    assert sorted(halvings(ast.parse(line))) == ["(low + high) // 2", "bisect_left(n, 1, key=f)", "p + q >> 1"]


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


def test_a_class_name_is_one_thing() -> None:
    """No two classes and names of types share a name; an underscore makes no other one.

    A type may be assigned in several modules.
    """
    homes: dict[str, set[str]] = {}
    for path in modules():
        for name, what in types_named(parsed(path)):
            homes.setdefault(name.lstrip("_"), set()).add(f"{name_of(path)}: {what}" if "class" in what else what)
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def types_named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a module's classes, and of the types that it assigns, those with what is assigned."""
    for node in walked(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"class in line {node.lineno}"
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        left, right = node.targets[0], node.value
        are_many = isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple)
        for one, given in zip(left.elts, right.elts, strict=True) if are_many else [(left, right)]:
            name, what = ast.unparse(one), ast.unparse(given)
            is_same = what.rpartition(".")[2] == name  # a class under its own name
            if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name) and not is_same:
                yield name, what


def test_types_are_seen() -> None:
    """The rule above knows classes, types that are assigned, and a layout's words, from constants."""
    text = "class A: pass\n_Bc = dict[str, int]\nCD = 1\nEf, G = E_LAYOUT.words, 1\nGh = a.Gh\ndef f():\n    Ij = int"
    types = [("A", "class in line 1"), ("_Bc", "dict[str, int]"), ("Ef", "E_LAYOUT.words")]
    assert list(types_named(ast.parse(text))) == types


def test_only_files_touches_the_file_system() -> None:
    """Calls that change files are in files/: there faults are injected, and durability can be read."""
    others = [path for path in modules() if room_of(path) != "files" and name_of(path) not in FILES_ONLY_EXCEPT]
    assert not [
        f"{name_of(path)}:{line}: {call}: use {use}"
        for path in others
        for line, call, use in forbidden_calls(parsed(path))
    ]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("os.rename(a, b)", True),
        ("path.parent.mkdir()", True),
        ("open(p, 'wb')", True),
        ("Path(p).open(mode='r+')", True),
        ("open(p)", False),
        ("fs.rename(a, b)", False),
        ("text.replace('a', 'b')", False),
        ("webbrowser.open('index')", False),
    ],
)
def test_forbidden_calls_are_seen(line: str, seen: bool) -> None:
    """The rule above knows writing from reading and paths from strings."""
    assert bool(list(forbidden_calls(ast.parse(line)))) == seen


def code_of_data(tree: ast.Module) -> Iterator[str]:
    """The places of a module that could run what data says: calls, a shell, and modules that make objects of bytes."""
    for node in walked(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [alias.name for alias in node.names]
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found = NO_CODE_MODULES.intersection(name.split(".")[0] for name in named + module)
            yield from (f"{node.lineno}: {name}" for name in sorted(found))
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in NO_CODE_OF_DATA:
                yield f"{node.lineno}: {name}"
            for word in node.keywords:
                is_off = isinstance(word.value, ast.Constant) and word.value.value is False
                if word.arg in ("shell", "allow_pickle") and not is_off:
                    yield f"{node.lineno}: {name}({word.arg})"


def test_no_data_is_run() -> None:
    """Nothing evaluates, imports or unpickles what data says, and no shell is started, but as listed."""
    found = {name_of(path): list(code_of_data(parsed(path))) for path in modules()}
    assert {name for name, places in found.items() if places} == CODE_EXCEPT.keys(), found


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("eval(text)", True),
        ("import pickle", True),
        ("from pyspark import cloudpickle", True),
        ("subprocess.run(words, shell=True)", True),
        ("subprocess.run(words, shell=given)", True),
        ("np.load(path, allow_pickle=True)", True),
        ("subprocess.run(words, shell=False)", False),
        ("re.compile(text)", False),
        ("model.eval()", False),
    ],
)
def test_code_of_data_is_seen(line: str, seen: bool) -> None:
    """The rule above knows built-in calls from methods of the same name."""
    assert bool(list(code_of_data(ast.parse(line)))) == seen


def test_kinds_of_queues_are_not_named() -> None:
    """No import and no name of store, pipeline, data source or commands is a kind's: what differs the kind is asked."""
    rooms = [path for path in modules() if room_of(path) in KINDS_UNNAMED or name_of(path) in KINDS_UNNAMED_MODULES]
    asking = [path for path in rooms if name_of(path) not in KINDS_LISTED and not OF_ONE_KIND.search(name_of(path))]
    assert not [f"{name_of(path)}: {kind}" for path in asking for kind in kinds_named(parsed(path))]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("from reput.queue.file_kind import FileKind", True),
        ("if kind.name == ROCKSDB: pass", True),
        ("if 'rocksdb' in kinds: pass", True),
        ("isinstance(queue, FileQueue)", True),
        ("if queue.kind == BATCHES: pass", True),
        ("if queue.kind == queue_kinds.BATCHES: pass", True),
        ("isinstance(kind, BatchKind)", True),
        ("store.view.batches, has_batches, BATCH", False),
        ("from reput.pipeline.build.rocksdb.tables import build_tables", True),
        ("kinds[0].open()", False),
        ("log.file_size, files, FILE_NAME, LogFiles", False),
        ("def f():\n    'Tables for RocksDB.'", False),
    ],
)
def test_kinds_are_seen(line: str, seen: bool) -> None:
    """The rule above knows names and texts from prose about them."""
    assert bool(list(kinds_named(ast.parse(line)))) == seen


def test_lists_of_kinds_are_complete_and_documented() -> None:
    """Each module that lists kinds names that of batches, too, and docs/architecture.md names each of these modules."""
    for name in LISTS_OF_KINDS:
        assert re.search(r"\b(?:BATCHES|BatchKind|BatchQueues)\b", (PACKAGE / name).read_text()), name
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## What a kind of queues is")[2]
    assert re.findall(r"^\| `(\S+)` \|", section.partition("\n## ")[0], re.MULTILINE) == LISTS_OF_KINDS


def test_kinds_of_index_are_not_named() -> None:
    """No import of store, pipeline, data source or commands is a kind of index, but in the modules that list them."""
    paths = [path for path in modules() if room_of(path) in KINDS_UNNAMED]
    named = [name_of(path) for path in paths if list(index_kinds_named(parsed(path)))]
    assert sorted(named) == sorted(INDEX_KINDS_LISTED)


def test_sizes_are_bounded() -> None:
    """No file is above 600 lines, no function above 70, but for those listed with their reason."""
    files = {name_of(path): len(path.read_text().splitlines()) for path in modules()}
    assert not {name: lines for name, lines in files.items() if lines > FILE_LINES_MAX}, "split a file by what it does"
    functions = [(name_of(path), name, lines) for path in modules() for name, lines in functions_of(parsed(path))]
    limits = {one: limit for one, (limit, _) in LONG_FUNCTIONS.items()}
    assert not [one for one in functions if one[2] > limits.get(one[:2], FUNCTION_LINES_MAX)]


def test_exceptions_are_needed() -> None:
    """An exception that nothing needs any more goes from its list."""
    for name in FILES_ONLY_EXCEPT:
        path = PACKAGE / name
        assert path.exists(), name
        assert list(forbidden_calls(parsed(path))), f"{name} keeps the rule: drop the exception"
    for (name, function), (limit, _) in LONG_FUNCTIONS.items():
        lines = dict(functions_of(parsed(PACKAGE / name)))[function]
        assert FUNCTION_LINES_MAX < lines == limit, f"{name}: {function} has {lines} lines: lower the ratchet"


def test_modules_say_what_they_are() -> None:
    """Each module and each package opens with a docstring."""
    assert not [name_of(path) for path in modules() if not ast.get_docstring(parsed(path))]


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The docstrings of a module, its classes and functions, and of their attributes, with the names."""
    for node in walked(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""
        for before, after in pairwise(node.body):
            if (
                isinstance(before, ast.Assign | ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                yield ast.unparse(before).partition("=")[0].strip(), after.value.value.strip()


def test_docstrings_are_seen() -> None:
    """The rule below knows docstrings of modules, classes, functions and attributes, and no other texts."""
    text = "'a'\nB = 1\n'b'\nclass C:\n    'c'\n    d: int\n    'd'\n    e = 'e'\ndef f():\n    'f'\n    'g'"
    found = dict(docstrings(ast.parse(text)))
    assert found == {"the module": "a", "B": "b", "C": "c", "d: int": "d", "f": "f"}


def unplain(path: Path) -> Iterator[str]:
    """The docstrings of a module with a beginning that the rule forbids, and its lines with a private word."""
    text, home = path.read_text(), path.relative_to(ROOT)
    for name, docstring in docstrings(parsed(path)):
        if found := NO_BEGINNING.match(docstring):
            yield f"{home}: {name}: its docstring begins with {found[0]}"
    for number, line in enumerate(text.splitlines(), 1):
        words = PRIVATE.findall(PUBLIC_NAMES.sub("", line))
        yield from (f"{home}:{number}: {word}" for word in words)


def test_sentences_are_plain() -> None:
    """A docstring begins with a verb or a noun, and words are the field's."""
    assert not [found for path in modules() for found in unplain(path)]


@functools.cache
def names_of_code() -> frozenset[str]:
    """The names that the package's code has, and those of modules of tests and scripts."""
    found = {path.stem for top in ("src", "tests", "scripts") for path in (ROOT / top).rglob("*.py")}
    for path in modules():
        found |= found_names(parsed(path))
    return frozenset(found)


def found_names(tree: ast.Module) -> set[str]:
    """The names that a module's code has. Texts with backquotes do not count: they speak about names."""
    found: set[str] = set()
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            found |= set() if "`" in text else set(SNAKE_NAME.findall(text))
        else:
            found |= {
                name for one in ("id", "attr", "name", "arg") if isinstance(name := getattr(node, one, None), str)
            }
    return found


def test_docstrings_name_what_is_there() -> None:
    """A snake_case name in backquotes is one of the code's: a name that was changed is not left in a docstring."""
    written = [
        (f"{name_of(path)}:{number}", name)
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for quoted in re.findall(r"`([^`]+)`", line)
        for name in SNAKE_NAME.findall(quoted)
    ]
    assert [(place, name) for place, name in written if name not in names_of_code()] == []


def test_names_of_code_are_seen() -> None:
    """The rule above knows names of all sorts, and not those of which only a docstring speaks."""
    text = "import a_b\ndef c_d(e_f):\n    'See `old_name`.'\n    e_f.g_h = i_j('k_l', m_n=1)"
    assert found_names(ast.parse(text)) == {"a_b", "c_d", "e_f", "g_h", "i_j", "k_l", "m_n"}


@pytest.mark.parametrize("top", OUTSIDE)
def test_sentences_outside_the_package_are_plain(top: str) -> None:
    """Tests, benchmarks, scripts and examples keep the same rule; this module lists the private words, and may."""
    paths = [path for path in sorted((ROOT / top).rglob("*.py")) if path != Path(__file__)]
    assert not [found for path in paths for found in unplain(path)]


PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_of_pages_are_plain(page: Path) -> None:
    """Pages for users keep the same words; names in backticks are those of code, and of RocketMQ's tests."""
    lines = enumerate(page.read_text().splitlines(), 1)
    found = {number: PRIVATE.findall(re.sub(r"`[^`]*`", "", line)) for number, line in lines}
    assert not {number: words for number, words in found.items() if words}


def test_packages_are_packages() -> None:
    """Each folder of modules has an __init__.py, where its docstring says what the room is for."""
    folders = {path.parent for path in modules()}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_words() -> None:
    """Nothing is left unfinished in the text, and no text names a folder of someone's machine."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line) or MACHINE_PATH.search(line)
    ]
    assert not found
