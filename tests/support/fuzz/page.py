"""The table of fuzzed decoders in docs/reliability.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.fuzz.targets import Target

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make fuzz-decoders` -->\n", "<!-- end of fuzzed decoders -->\n"


class Row(NamedTuple):
    """The numbers of a decoder: executions, edges of the code that they reached, and inputs that are kept."""

    target: Target
    executions: int
    edges: int
    kept: int


def table(rows: Sequence[Row], seconds: int) -> str:
    """Return the table of a run that had `seconds` for each decoder."""
    total = sum(row.executions for row in rows)
    lines = [
        f"| `{target.name}` | {target.what} | {executions:,} | {edges:,} | {kept} |\n"
        for target, executions, edges, kept in rows
    ]
    return "".join(
        (
            f"The last run tried {total:,} inputs: {seconds} seconds for each decoder, one on each core.\n\n",
            "| decoder | what it decodes | executions | edges reached | inputs kept |\n|---|---|--:|--:|--:|\n",
            *lines,
        )
    )


def rewrite(text: str, rows: Sequence[Row], seconds: int) -> str:
    """Return the page with the table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(rows, seconds)}\n{END}{after}"
