"""convert: the queues of a store in another kind, from its log or from the other kind, verified and swapped in whole.

It is a rebuild of the queues into the kinds that are asked for: until the swap, and after any error, the old ones are
live. One that was killed is gone on with by the next one like it (`resume.py`).
"""

from __future__ import annotations

from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.queue_kinds import TARGET_SETTINGS, TARGETS
from reput.pipeline.engine import Engine
from reput.pipeline.listener import ProgressListener
from reput.pipeline.rebuild import rebuild_store
from reput.pipeline.rebuild_state import LOG, QUEUE, RebuildOptions
from reput.store import swap
from reput.store.contradictions import contradictions
from reput.store.kinds import present_kinds
from reput.store.layout import find_store
from reput.store.report import RebuildReport


def nothing_to_convert(root: Path | str, to: str, config: StoreConfig, source: str = LOG) -> RebuildReport | None:
    """The report for a store that already has just these kinds of queues; None where there is something to do.

    What an earlier conversion left is something to do, and so is a setting that contradicts the files. A copy of one
    kind from another that is not there is an error, which the conversion raises.
    """
    layout = find_store(root, config)
    present = {kind.name for kind in present_kinds(layout)}
    if not present or present != set(TARGETS.get(to, ())) or (source != LOG and len(present) == 1):
        return None
    if swap.pending_swap(layout) or any(swap.leftovers(layout)) or contradictions(layout, config):
        return None
    report = RebuildReport(str(layout.root), salvage=False)
    has = "both kinds of queues" if len(present) > 1 else f"{to} queues"
    report.notes.append(
        f"the store already has {has}: nothing to do. `reput check` judges them, `reput rebuild --only queue` builds "
        "them again"
    )
    return report


def convert_store(
    root: Path | str,
    engine: Engine,
    to: str,
    config: StoreConfig | None = None,
    *,
    source: str = LOG,
    salvage: bool = False,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Make the queues of the store in `root` ones of another kind; `source`: see `RebuildOptions`.

    Raises:
        ConfigError: `to` is no target, or there is no other kind of queues to build from.
        DamagedLogError: the log is damaged in the middle, and `salvage` was not asked for.
        ReputError: see `reput.errors`; the old queues are live unless the text says otherwise.
    """
    options = convert_options(to, source, salvage=salvage, verify_crc=verify_crc, split_mb=split_mb)
    report = rebuild_store(root, engine, config, options, listener)
    report.notes.append(f"a broker goes on with these queues when its broker.conf says {TARGET_SETTINGS[to]}")
    return report


def convert_options(
    to: str, source: str = LOG, *, salvage: bool = False, verify_crc: bool = True, split_mb: float = 128
) -> RebuildOptions:
    """The options of the rebuild that a conversion is.

    Raises:
        ConfigError: `to` is no target.
    """
    if to not in TARGETS:
        raise ConfigError(f"to={to!r}: choose {', '.join(TARGETS)}")
    return RebuildOptions(
        only=QUEUE,
        salvage=salvage,
        verify_crc=verify_crc,
        split_mb=split_mb,
        kinds=TARGETS[to],
        # Queues that come from others are held against those instead.
        verify=source == LOG,
        source=source,
        resumable=True,
    )
