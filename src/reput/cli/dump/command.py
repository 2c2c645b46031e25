"""`reput dump`: show records, queue entries and index items as text or JSON lines."""

from __future__ import annotations

import click

from reput.cli.dump.index import index
from reput.cli.dump.log import log
from reput.cli.dump.queue import queue
from reput.cli.shared.groups import VerbGroup


@click.group(cls=VerbGroup)
def dump() -> None:
    """Show the contents of a store: records of its log, entries of its queues, or items of its IndexFiles.

    The command changes nothing, and a broker may have the store open. The exit code is 1 if bytes in the middle are
    damaged.

    \b
    reput dump log /data/store --physical-offset -10
    reput dump queue /data/store -t orders -q 2 --records
    """  # noqa: D301 - click wants the control character


for _verb in (log, queue, index):
    dump.add_command(_verb)
