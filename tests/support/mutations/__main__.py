"""The command: `make mutations`."""

from __future__ import annotations

import argparse
import sys

from support.lines import say
from support.mutations.page import PAGE, rewrite
from support.mutations.promises import MUTATIONS
from support.mutations.run import copied_source, mutated, run_tests


def main() -> None:
    """Break promises one by one; exit with 1 if a named test does not fail."""
    parser = argparse.ArgumentParser(prog="support.mutations", description="Break promises, and see tests fail.")
    parser.add_argument("--only", default="", help="mutations with this in their titles")
    only = parser.parse_args().only
    chosen = [one for one in MUTATIONS if only in one.title]
    survivors = 0
    with copied_source() as source:
        wanted = {test for one in chosen for test in one.tests}
        outcome = run_tests(source, wanted)
        if outcome.failed or wanted - outcome.ran:
            sys.exit(f"without a mutation these fail or do not run: {outcome.failed | (wanted - outcome.ran)}")
        say(f"{len(wanted)} tests pass without a mutation")
        for mutation in chosen:
            with mutated(source, mutation):
                failed = run_tests(source, mutation.tests).failed
            missed = sorted(set(mutation.tests) - failed)
            caught = f"{len(mutation.tests) - len(missed)} of {len(mutation.tests)} tests"
            say(f"{'survives' if missed else 'found':8} {mutation.title}: {caught}")
            for test in missed:
                say(f"         {test} passes")
            survivors += bool(missed)
    say(f"{len(chosen)} mutations, {survivors} survive")
    if survivors:
        sys.exit(f"{survivors} mutations survive a test that should find them")
    if not only:
        PAGE.write_text(rewrite(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
