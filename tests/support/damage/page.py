"""The page docs/damage.md: for each class of field, how a damage of it ends."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.damage.judge import Outcome
from support.damage.reasons import reason, reason_of_read
from support.damage.stores import CONTENTS

if TYPE_CHECKING:
    from support.damage.judge import Judged
    from support.damage.sweep import Counts, Reads, Tries

_ROOT = Path(__file__).resolve().parents[3]
PAGE = _ROOT / "docs" / "damage.md"
_SHOWN = [one for one in Outcome if one is not Outcome.WRONG]
_HEAD = """\
# One damaged field

<!-- made by `make damage` -->

A program damages stores, every class of field of each.
It changes a field (a bit, all ones, all zeros) or cuts its file in it, asks the store everything, and checks it.
Then the store is made whole again.
The fields come from the layouts in [Formats](formats.md).

A damage ends in one of these ways, and the first that applies counts:

| outcome | meaning |
|---|---|
| refused at open | the store cannot be opened to read, and the error names the file |
| found at read | an answer is an error, a body does not match its CRC, or the store has a note |
| found by check | `reput check` reports it; answers may differ until then, or be right all the same |
| as stored | no other place has this value: a message is returned with the changed one, and all else is right |
| harmless | every answer is right, and there is nothing to report |

What is found at read may be one answer of many, and others may differ, too.
An answer that is wrong without any of these has no row: the program ends with an error then.

The reader asks each message if its body matches its CRC (`message.body_matches_crc`).
Everything means all queues, all messages with all their values, and all committed offsets.
It also means all timers and all halves of transactions that wait.
Of times, keys and tags it asks for some.

"""
_COMMANDS = """
```
make damage                          these stores, and this page; `make nightly` runs it
make damage FLIPS=50 CUTS=10         more of each class; MISREADS=50 for wrong sectors
make damage STORE=crash SEED=7       any golden store; the page stays as it is
```

`make test` tries some of them.
"""


_READS = (Outcome.REFUSED, Outcome.AT_READ, "right answers", "another answer")
_HEAD_OF_READS = """
## A wrong sector is read

A disk may return the bytes of another place.
Here one sector of 512 bytes reads as another one of the store, of the same kind of file or of any.
If that happens once, a later `reput check` reads the right bytes and finds nothing.
So what counts here is what the answers themselves say.

| file | refused at open | found at read | right answers | another answer | why another answer |
|---|--:|--:|--:|--:|---|
"""


def read_column(judged: Judged) -> str:
    """Return the column for a misread sector: how it was refused or found, or what the answers were without that."""
    if judged.outcome in (Outcome.REFUSED, Outcome.AT_READ):
        return judged.outcome
    return _READS[3] if judged.differs else _READS[2]


def unexplained(counts: Counts, reads: Reads) -> list[str]:
    """Return the rows that are harmless or as stored at times, or give other answers, and have no reason."""
    fields = [
        f"{kind}: {field}: {dict(outcomes)}"
        for (kind, field), outcomes in sorted(counts.items())
        if (outcomes[Outcome.HARMLESS] or outcomes[Outcome.AS_STORED]) and not reason(kind, field)
    ]
    return fields + [
        f"{kind}, a wrong sector: {dict(found)}"
        for kind, found in sorted(reads.items())
        if found[_READS[3]] and not reason_of_read(kind)
    ]


class Run(NamedTuple):
    """The numbers of a run: its seed, how much of each kind it tried, and by store its classes and damages."""

    seed: int
    tries: Tries
    stores: dict[str, tuple[int, int]]


def page(counts: Counts, reads: Reads, run: Run) -> str:
    """Return the text of the page, of a run with these numbers."""
    return _HEAD + _said(run) + _COMMANDS + _HEAD_OF_READS + "".join(_rows_of_reads(reads)) + "".join(_tables(counts))


def _said(run: Run) -> str:
    """Return what was run. The numbers are those of the run, so they are never typed."""
    classes, damages = (sum(numbers) for numbers in zip(*run.stores.values(), strict=True))
    rows = "".join(f"| `{name}` | {CONTENTS[name]} | {of[0]} | {of[1]} |\n" for name, of in run.stores.items())
    return (
        f"The last run had seed {run.seed}.\n"
        f"In each class of field of each store the program changed {_fields(run.tries.flips)}, chosen at random.\n"
        f"And it cut the file in {_fields(run.tries.cuts)} of the class.\n\n"
        "| store | it has | classes of fields | damages |\n|---|---|--:|--:|\n"
        f"{rows}| all |  | {classes} | {damages} |\n\n"
        "The tables below count these damages.\n"
        "A number is that of all stores that have the field; a cut counts for the file that it cuts.\n"
    )


def _rows_of_reads(reads: Reads) -> list[str]:
    rows = []
    for kind, found in sorted(reads.items()):
        numbers = " | ".join(str(found[one] or "") for one in _READS)
        rows.append(f"| {kind} | {numbers} | {reason_of_read(kind) if found[_READS[3]] else ''} |\n")
    return rows


def _fields(count: int) -> str:
    return "one field" if count == 1 else f"{count} fields"


def _tables(counts: Counts) -> list[str]:
    names = " | ".join(_SHOWN)
    found = []
    for kind, rows in groupby(sorted(counts), key=lambda row: row[0]):
        found.append(
            f"\n## {kind[0].upper()}{kind[1:]}\n\n| field | {names} | why |\n|---|{'--:|' * len(_SHOWN)}---|\n"
        )
        for _, field in rows:
            outcomes = counts[kind, field]
            numbers = " | ".join(str(outcomes[one] or "") for one in _SHOWN)
            explained = outcomes[Outcome.HARMLESS] or outcomes[Outcome.AS_STORED]
            found.append(f"| {field} | {numbers} | {reason(kind, field) if explained else ''} |\n")
    return found
