"""grow, queue files: tasks have put entries into their places; what does not run straight on is done again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reput.files import fs
from reput.formats.consume_queue import QueueKey
from reput.pipeline.build import finish, redo
from reput.pipeline.build.ext_build import ExtWork, build_units, clear_units, ext_tasks
from reput.pipeline.build.grow_state import GrowDriver, QueueGrowth
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.redo_job import Extracts, QueueGroup, extract_queues
from reput.pipeline.split.job import Job
from reput.queue.kinds import QueueKind


class FileGrower:
    """See `kinds.KindGrower`."""

    def __init__(self, kind: QueueKind, owner: fs.Owner) -> None:
        """Files are opened by whoever writes them."""

    def grow(self, driver: GrowDriver, growth: QueueGrowth) -> list[QueueOutcome]:
        """Do again what does not run straight on, fill fronts with blanks, and give the new entries their units."""
        table, crooked = growth.table, growth.table.crooked()
        outcomes = _redo(driver, growth, crooked) if crooked else []
        straight_and_new = [
            (key, int(table.first[row]))
            for key, row in table.rows.items()
            if table.straight[row] and growth.ends.get(key, 0) == 0
        ]
        work = finish.front_blanks(driver.job, straight_and_new, [])
        if work:
            task = partial(finish.blank_fronts, driver.job)
            driver.engine.run(task, finish.in_tasks(work), driver.listener.advance)
        if driver.job.ext is not None:
            _build_ext(driver, growth, outcomes)
        return outcomes

    def close(self) -> None:
        """Nothing is held."""


def _build_ext(driver: GrowDriver, growth: QueueGrowth, outcomes: Sequence[QueueOutcome]) -> None:
    # An attempt that still writes entries would wipe the units' addresses.
    driver.shut_out_late_tasks()
    table = growth.table
    work = [
        ExtWork(key, int(table.first[row]), int(table.next[row]), not growth.ends.get(key, 0))
        for key, row in table.rows.items()
        if table.straight[row] and table.count[row]
    ]
    work += [
        ExtWork(one.key, one.first, one.next, bool(one.restarts) or not growth.ends.get(one.key, 0)) for one in outcomes
    ]
    clear_units(driver.job, work)
    driver.engine.run(partial(build_units, driver.job), ext_tasks(work), driver.listener.advance)


def _redo(driver: GrowDriver, growth: QueueGrowth, crooked: list[QueueKey]) -> list[QueueOutcome]:
    driver.shut_out_late_tasks()
    extracts = extract_queues(driver.engine, driver.job, growth.splits, crooked, driver.listener)
    work = [(group, tuple(growth.ends.get(key, 0) for key in group.keys)) for group in extracts.groups]
    task = partial(_append_task, driver.job, extracts._replace(groups=()))
    done = driver.engine.run(task, work, driver.listener.advance)
    return [outcome for outcomes in done for outcome in outcomes]


def _append_task(job: Job, extracts: Extracts, work: tuple[QueueGroup, tuple[int, ...]]) -> list[QueueOutcome]:
    group, ends = work
    found = extracts.of_group(job, group)
    return [redo.append_queue(job, key, end, parts) for key, end, parts in zip(group.keys, ends, found, strict=True)]
