"""The table of mutations in docs/reliability.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.mutations.promises import MUTATIONS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.mutations.promises import Mutation

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make mutations` -->\n", "<!-- end of mutations -->\n"


def table(mutations: Iterable[Mutation] = MUTATIONS) -> str:
    """Return the table: a promise, the mutation that breaks it, and the tests that fail then."""
    rows = [
        f"| {one.promise} | {one.title}: `{one.file}` | {', '.join(f'`{test}`' for test in one.tests)} |\n"
        for one in mutations
    ]
    return "".join(("| promise | broken by | tests that fail |\n|---|---|---|\n", *rows))


def rewrite(text: str) -> str:
    """Return the page with the table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"
