"""catch-up: extends the indexes in place, from the frontier to a confirmed log offset, and makes them durable there.

The frontier moves last, after everything is durable. After a kill before that, a repeat writes the same bytes.
"""

from __future__ import annotations

import time
from contextlib import closing

from reput.log.read.files import LogFiles, list_log_files
from reput.log.read.maps import LogMaps
from reput.pipeline.build import publish
from reput.pipeline.build.grow.grow import Grower, Growth
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.frontier import Frontiers, read_frontier
from reput.store.owner.indexer import CatchUp, CatchUpTask


class SparkIndexer:
    """The store's `Indexer`: the tasks of the pipeline, run by an engine of `pipeline.spark`."""

    def __init__(self, engine: Engine, listener: ProgressListener | None = None) -> None:
        self.engine = engine
        self.listener = listener or ProgressListener()

    def catch_up(self, task: CatchUpTask) -> CatchUp:
        """Bring the indexes up to `task.end`; see the module's docstring.

        Raises:
            DamagedLogError: the log in between is damaged.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        begin = time.perf_counter()
        log = list_log_files(task.layout.commit_log)
        done = CatchUp(task.frontiers)
        if max(task.frontiers.both, log.min_offset) >= task.end:
            if task.may_have_leftovers or (task.keep_frontier and read_frontier(task.layout) is None):
                self._begin_only(task, log)
            return done
        grower = Grower.begin(task, self.engine, self.listener)
        begin_offset = grower.offset
        growths = []
        try:
            while grower.offset < task.end:
                growths.append(grower.grow(task.end, task.end))
        finally:
            grower.close()
        frontiers = self._publish(task, growths, grower.leaves_index_files)
        return CatchUp(
            frontiers,
            messages=sum(growth.records for growth in growths),
            queue_entries=sum(growth.queue_entries for growth in growths),
            index_items=sum(growth.items for growth in growths),
            log_bytes=task.end - begin_offset,
            out_of_order_queues=[line for growth in growths for line in growth.out_of_order],
            seconds=time.perf_counter() - begin,
        )

    def _begin_only(self, task: CatchUpTask, log: LogFiles) -> None:
        """Have a grower remove leftovers, durably, and keep the frontier if the task asks for it and there is none."""
        with closing(Grower.begin(task, self.engine, self.listener)) as grower:
            if task.keep_frontier and read_frontier(task.layout) is None:
                with LogMaps(log.folder, log.file_size) as maps:
                    publish.keep_frontier(task.owned, maps, grower.offset, grower.index_end)
            elif task.may_have_leftovers:
                # What was removed, here and by the recovery, must not come back into a store that was closed.
                task.owned.sync()

    def _publish(self, task: CatchUpTask, growths: list[Growth], leaves_index_files: bool) -> Frontiers:
        reached = publish.Reached(task.end, leaves_index_files=leaves_index_files)
        for growth in growths:
            reached.add(growth.end, growth.last, growth.index_files)
        publish.make_durable(task.owned, reached, log_is_ours=True)
        task.owned.watermarks["frontier_offset"] = task.end
        return Frontiers.at(task.end)
