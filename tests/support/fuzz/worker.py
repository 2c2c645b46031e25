"""One target under atheris, in a process of its own: python -m support.fuzz.worker NAME FOLDER [flags of libFuzzer]."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Fuzz a target until libFuzzer's flags end it; the folder has the inputs that it knows and gets new ones."""
    name, *flags = sys.argv[1:]
    atheris = importlib.import_module("atheris")
    # Numba cannot compile what is instrumented. The twin of each kernel leads the search instead.
    with atheris.instrument_imports(include=["reput", "json"], exclude=["reput.kernels.compiled"]):
        targets = importlib.import_module("support.fuzz.targets")
    (target,) = (one for one in targets.TARGETS if one.name == name)
    target.run(b"")
    atheris.Setup([sys.argv[0], *flags], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
