#!/usr/bin/env python
"""Makes docs/peer-behaviours.md: RocketMQ's own tests, and for each a test of reput's or the reason for none.

    python scripts/behaviours.py        writes the page; fails on a row that has neither

The behaviours are in tests/peer_behaviours.toml, in reput's words. A test names those that it shows in a marker:
`@pytest.mark.behaviour("Class.method", ...)`, or `"Class.*"` for all methods of a class. Tests that `make test` leaves
out do not count.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
BEHAVIOURS = TESTS / "peer_behaviours.toml"
PAGE = ROOT / "docs" / "peer-behaviours.md"
ALL = "*"
_FIELDS = {"module", "why_not", "like", "with", "without", "shown", "inside", "not_shown"}
_LEFT_OUT = {"takes_long", "pytest.mark.skip", "pytest.mark.xfail"}
"""Decorators of tests that `make test` leaves out (`takes_long`: tests/support/search.py)."""
_HEAD = """\
# RocketMQ's own tests, one by one

<!-- made by `python scripts/behaviours.py` from tests/peer_behaviours.toml and the markers of tests -->

RocketMQ has tests of its own store.
This page lists them by class, each with its behaviour in reput's words.
A starred behaviour (★) is one that a black box can show: one sees it from outside, by files and answers.
Each behaviour has the tests of reput that show it, or the reason why none does.
The tests are reput's own: they share no code with RocketMQ's.

The list is that of RocketMQ 5.3.3, with the tests of classes that came with 5.4 and 5.5.
Four of those classes have no tests that could be found: `IndexRocksDBStore`, `TransMessageRocksDBStore`, `Timeline` and
`ConfigStorage`.
reput compares its own views of them with stores that a broker 5.5.0 wrote (`tests/golden-5.5`).

"""


class Behaviour(NamedTuple):
    """One method of a test class of RocketMQ."""

    peer_class: str
    method: str
    text: str
    is_starred: bool
    why_not: str

    @property
    def name(self) -> str:
        """Return the name that markers use."""
        return f"{self.peer_class}.{self.method}"


class OpenRowError(Exception):
    """A row without test or reason, or a marker without a row; the text lists all of them."""


def main() -> None:
    """Write the page."""
    try:
        PAGE.write_text(page(), "utf-8")
    except OpenRowError as error:
        sys.exit(str(error))


def page() -> str:
    """Make the text of the page.

    Raises:
        OpenRowError: a row has neither test nor reason, or both; a marker or a reason names no row.
    """
    classes = tomllib.loads(BEHAVIOURS.read_text("utf-8"))
    return page_of(classes, marked_tests(TESTS))


def page_of(classes: Mapping[str, Any], tests: Mapping[str, list[str]]) -> str:
    """Make the text of the page from the list of behaviours and the tests by the behaviour that they show."""
    rows = list(behaviours(classes))
    shown = {row.name: tests.get(row.name, []) + tests.get(f"{row.peer_class}.{ALL}", []) for row in rows}
    problems = [*_unknown(classes, rows, tests), *_open(classes, rows, shown)]
    if problems:
        raise OpenRowError("\n".join(problems))
    starred = [row for row in rows if row.is_starred]
    done = [row for row in rows if shown[row.name]]
    sums = (
        f"| | all | ★ |\n|---|--:|--:|\n| behaviours | {len(rows)} | {len(starred)} |\n"
        f"| shown by tests | {len(done)} | {sum(row.is_starred for row in done)} |\n"
        f"| not applicable | {len(rows) - len(done)} | {sum(not shown[row.name] for row in starred)} |\n"
    )
    tables = [
        _table(name, values["module"], [row for row in rows if row.peer_class == name], shown)
        for name, values in classes.items()
    ]
    return _HEAD + sums + "".join(tables)


def behaviours(classes: Mapping[str, Any]) -> Iterator[Behaviour]:
    """List the rows, class by class, starred ones first."""
    for name, values in classes.items():
        methods = values
        if "like" in values:
            other = classes[values["like"]]
            left_out = values.get("without", [])
            methods = {
                part: {method: text for method, text in other.get(part, {}).items() if method not in left_out}
                for part in ("shown", "inside", "not_shown")
            }
        suffix = f" ({values['with']})" if "with" in values else ""
        reasons = methods.get("not_shown", {})
        for part in ("shown", "inside"):
            for method, text in methods.get(part, {}).items():
                why_not = reasons.get(method, values.get("why_not", ""))
                yield Behaviour(name, method, text.removesuffix(".") + suffix + ".", part == "shown", why_not)


def marked_tests(folder: Path) -> dict[str, list[str]]:
    """Find the tests of `make test` by the behaviours that their markers name, each as `path::test`."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and not _is_left_out(node):
                test = f"{path.relative_to(folder.parent).as_posix()}::{node.name}"
                for name in _marks(node):
                    found.setdefault(name, []).append(test)
    return found


def _is_left_out(function: ast.FunctionDef) -> bool:
    """Return True if a test is skipped in `make test`; marks of a whole module only skip where the peer cannot run."""
    names = (ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list)
    return not _LEFT_OUT.isdisjoint(names)


def _marks(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.behaviour":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def _unknown(classes: Mapping[str, Any], rows: list[Behaviour], tests: Mapping[str, list[str]]) -> Iterator[str]:
    names = {row.name for row in rows} | {f"{name}.{ALL}" for name in classes}
    for mark, places in tests.items():
        if mark not in names:
            yield f"{', '.join(places)}: {mark} is no row of {BEHAVIOURS.name}"
    for name, values in classes.items():
        yield from (f"{name}: {field} is no field" for field in values.keys() - _FIELDS)
        methods = values.get("shown", {}).keys() | values.get("inside", {}).keys()
        yield from (f"{name}.{one}: a reason for no row" for one in values.get("not_shown", {}).keys() - methods)


def _open(classes: Mapping[str, Any], rows: list[Behaviour], shown: Mapping[str, list[str]]) -> Iterator[str]:
    for row in rows:
        if not shown[row.name] and not row.why_not:
            yield f"{row.name}: no test shows it, and no reason says why"
        if shown[row.name] and row.method in classes[row.peer_class].get("not_shown", {}):
            yield f"{row.name}: {shown[row.name][0]} shows it: take the reason away"


def _table(name: str, module: str, rows: list[Behaviour], shown: Mapping[str, list[str]]) -> str:
    lines = [f"\n## {name}\n", f"Module {module}.\n", "| ★ | method | behaviour | shown by |", "|---|---|---|---|"]
    for row in rows:
        star, method = "★" if row.is_starred else "", "all" if row.method == ALL else f"`{row.method}`"
        places = "<br>".join(f"`{place.removeprefix('tests/')}`" for place in shown[row.name])
        lines.append(f"| {star} | {method} | {row.text} | {places or f'Not applicable: {row.why_not}'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
