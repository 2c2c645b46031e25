"""Kinds of queues and indexes are named where they are listed, and nowhere else."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tidy.source import PACKAGE, ROOT, dotted, modules, name_of, parsed, room_of, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "pipeline/check/rules.py": "the findings about each",
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
NO_LISTS_OF_KINDS = {"pipeline/check/rules.py", "pipeline/spark/worker_parent.py"}
LISTS_OF_KINDS = [name for name in KINDS_LISTED if name not in NO_LISTS_OF_KINDS]
INDEX_KIND_NAMES = {"INDEX_FILES", "INDEX_DATABASE", "FileIndex", "DatabaseIndex"}
# What is about one kind says so in its name.
OF_ONE_KIND = re.compile(r"rocksdb|_files\.py$|/batch\w*\.py$")


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
