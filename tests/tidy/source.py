"""The package's source, parsed once for all rules."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "reput"


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
    """A module's path inside the package, as the tables of the rules write it."""
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    """The room that a module belongs to: its top folder, or its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an expression made of names; what is no name, such as a call, counts as empty."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""
