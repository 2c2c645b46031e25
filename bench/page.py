"""The page that each benchmark leaves beside its JSON and its plot, and its lines of ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def ratio_line(ratios: Mapping[str, float]) -> str:
    """The line that ends a benchmark's output."""
    return "ratio " + " ".join(f"{name}={value:.2f}" for name, value in ratios.items())


def write_page(
    stem: Path,
    title: str,
    about: Mapping[str, Any],
    counted: Iterable[str],
    table: Sequence[Sequence[str]],
    ratios: Iterable[Mapping[str, float]],
    picture: str = "",
    words: int = 1,
) -> None:
    """Write `stem`.md: what was measured where, what is counted, the table (its headings first), ratios and the plot.

    Without words for a picture there is no plot.

    The first `words` columns of the table are text, the others are numbers.
    """
    headings, *rows = table
    text = [
        f"# {title}",
        "",
        *(f"- {key}: {value}" for key, value in about.items()),
        "",
        "What is counted:",
        "",
        *(sentence if sentence.startswith(" ") else f"- {sentence}" for sentence in counted),
        "",
        f"| {' | '.join(headings)} |",
        f"|{'---|' * words}{'--:|' * (len(headings) - words)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    for found in ratios:
        text += [f"`{ratio_line(found)}`", ""]
    text += [f"![{picture}]({stem.name}.png)", ""] if picture else []
    stem.with_suffix(".md").write_text("\n".join(text))
