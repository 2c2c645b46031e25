"""`python -m reput` is the command `reput`."""

from __future__ import annotations

from reput.cli.main import main

main()
