"""Calls that a module may make: who changes files, and that nobody runs what data says."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tidy.source import PACKAGE, dotted, modules, name_of, parsed, room_of, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_exceptions_for_calls_are_needed() -> None:
    """A module that makes no such call any more goes from its list."""
    for name in FILES_ONLY_EXCEPT:
        path = PACKAGE / name
        assert path.exists(), name
        assert list(forbidden_calls(parsed(path))), f"{name} keeps the rule: drop the exception"
