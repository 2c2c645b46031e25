"""The command: `make damage`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from support.damage.judge import SECTOR_READ, Outcome
from support.damage.page import PAGE, Run, page, read_column, unexplained
from support.damage.stores import NAMES, subject
from support.damage.sweep import Counts, Reads, Tries, classes, sweep
from support.lines import say

_FLIPS, _CUTS, _MISREADS = 1, 1, 8


def main() -> None:
    """Damage stores, and write the page; exit with 1 after a wrong answer, or an outcome that no text explains."""
    parser = argparse.ArgumentParser(prog="support.damage", description="Damage stores, and look what is said of it.")
    parser.add_argument("--store", choices=NAMES, help="this one only; the page stays as it is")
    parser.add_argument("--flips", type=int, default=_FLIPS, help="changes of each class of field of each store")
    parser.add_argument("--cuts", type=int, default=_CUTS, help="cuts of a file in each class of field of each store")
    parser.add_argument("--misreads", type=int, default=_MISREADS, help="wrong sectors of each kind of file")
    parser.add_argument("--seed", type=int, default=1, help="chooses places and changes")
    given = parser.parse_args()
    tries = Tries(given.flips, given.cuts, given.misreads)
    counts: Counts = defaultdict(Counter)
    reads: Reads = defaultdict(Counter)
    ran: dict[str, tuple[int, int]] = {}
    wrong = 0
    for name in [given.store] if given.store else NAMES:
        of_store: Counter[Outcome] = Counter()
        with tempfile.TemporaryDirectory(prefix="reput-damage-") as folder:
            found = subject(name, Path(folder))
            number_of_classes = len(classes(found))
            for one, judged in sweep(found, tries, given.seed):
                if one.row[1] == SECTOR_READ:
                    reads[one.place.kind][read_column(judged)] += 1
                else:
                    counts[one.row][judged.outcome] += 1
                of_store[judged.outcome] += 1
                if judged.outcome is Outcome.WRONG:
                    wrong += 1
                    say(f"{name}: {one}: {judged.detail}")
        ran[name] = number_of_classes, of_store.total()
        say(f"{name:20} " + ", ".join(f"{outcome} {count}" for outcome, count in sorted(of_store.items())))
    say(f"{sum(damages for _, damages in ran.values())} damages, {wrong} wrong answers")
    if wrong:
        sys.exit(f"{wrong} wrong answers that nobody reports; --store and --seed {given.seed} repeat them")
    if open_rows := unexplained(counts, reads):
        sys.exit("give these a reason in tests/support/damage/reasons.py:\n" + "\n".join(open_rows))
    if not given.store:
        PAGE.write_text(page(counts, reads, Run(given.seed, tries, ran)), "utf-8")


if __name__ == "__main__":
    main()
