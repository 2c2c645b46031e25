"""convert: the queues of a store in another kind, from its log or from the other kind, verified and swapped in whole.

It is a rebuild of the queues into the kinds that are asked for: until the swap, and after any error, the old ones are
live. After a kill the next run starts from the beginning, unless the swap had begun: then it finishes that.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.queue_kinds import TARGET_SETTINGS, TARGETS
from reput.pipeline.build.options import LOG, QUEUE, QUEUES, RebuildOptions
from reput.pipeline.build.prepare import find_buildable
from reput.pipeline.build.rebuild import rebuild_store
from reput.pipeline.convert.queues import convert_queues
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.contradictions import contradictions
from reput.store.disk.kinds import present_kinds
from reput.store.disk.layout import StoreLayout, find_store
from reput.store.disk.report import RebuildReport
from reput.store.owner import swap
from reput.store.owner.owner import own_store


def nothing_to_convert(root: Path | str, to: str, config: StoreConfig, source: str = LOG) -> RebuildReport | None:
    """The report for a store that already has exactly these kinds of queues; None if there is something to do.

    What a killed job left is something to do, and so is a setting that contradicts the files. A copy of one kind from
    another that is not there is an error, which the conversion raises.
    """
    layout = find_store(root, config)
    if swap.has_leftovers(layout):
        return None
    return _done_already(layout, to, config, source)


def _done_already(layout: StoreLayout, to: str, config: StoreConfig, source: str) -> RebuildReport | None:
    present = {kind.name for kind in present_kinds(layout)}
    if not present or present != set(TARGETS.get(to, ())) or (source != LOG and len(present) == 1):
        return None
    if contradictions(layout, config):
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
    """Convert the queues of the store in `root` to another kind; `source`: see `RebuildOptions`.

    If a conversion to this kind was killed during or after its swap, only that is finished.

    Raises:
        ConfigError: `to` is no target, or there is no other kind of queues to build from.
        DamagedLogError: the log is damaged in the middle, and `salvage` was not asked for.
        ReputError: see `reput.errors`; the old queues are live unless the text says otherwise.
    """
    options = convert_options(to, source, salvage=salvage, verify_crc=verify_crc, split_mb=split_mb)
    config = config or StoreConfig()
    notes = _finish_killed_job(root, config)
    if notes and (done := _done_already(find_store(root, config), to, config, source)):
        done.notes[:0] = notes
        return done
    build = partial(convert_queues, config=config) if source == QUEUES else None
    report = rebuild_store(root, engine, config, options, listener, build)
    report.notes[:0] = notes
    report.notes.append(f"a broker goes on with these queues when its broker.conf says {TARGET_SETTINGS[to]}")
    return report


def _finish_killed_job(root: Path | str, config: StoreConfig) -> list[str]:
    """Finish the swap of a killed job and remove what such jobs left; returns what was done, as notes."""
    layout = find_buildable(root, config)
    if not swap.has_leftovers(layout):
        return []
    with own_store(layout) as owned:
        return owned.notes


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
    )
