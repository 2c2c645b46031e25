"""The table of compiled decoders in docs/reliability.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support.fuzz.page import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.fuzz.compiled.targets import Target

BEGIN, END = "<!-- made by `make fuzz-kernels` -->\n", "<!-- end of compiled decoders -->\n"


class Row(NamedTuple):
    """The numbers of a decoder: inputs, those compared with the specification, and its answers in words."""

    target: Target
    inputs: int
    compared: int
    answers: str


def table(rows: Sequence[Row], seed: int) -> str:
    """Return the table of a run."""
    lines = [
        f"| `{one.target.name}` | {one.target.what} | {one.inputs:,} | {one.compared:,} | {one.answers} |\n"
        for one in rows
    ]
    return "".join(
        (
            f"The last run tried {sum(one.inputs for one in rows):,} inputs, with seed {seed}.\n\n",
            "| decoder | what it decodes | inputs | of them compared with the specification | answers |\n",
            "|---|---|--:|--:|---|\n",
            *lines,
        )
    )


def write(rows: Sequence[Row], seed: int) -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows, seed)}\n{END}{after}", "utf-8")
