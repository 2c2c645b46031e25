"""convert, the driver's part if the source is the present queues: the log is not decoded.

The new queues reach as far as the old ones are known to be complete, and no further. The next owner of the store reads
the rest of the log, as it would have done before. So neither the checkpoint nor the frontier may say more than the old
queues did.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reput.errors import ConfigError, DamagedStoreError
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueRange
from reput.pipeline.build import publish
from reput.pipeline.build.rebuild.prepare import choose_source
from reput.pipeline.build.rebuild.rebuild import build_queues
from reput.pipeline.build.rebuild.report import topic_summaries
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.stages.place import merge, queue_parts
from reput.pipeline.convert.source import (
    ReadCounts,
    Source,
    SourceTask,
    compare_staged,
    plan_tasks,
    take_entries,
)
from reput.pipeline.split.job import SplitOddities, SplitResult
from reput.pipeline.split.parts import key_order
from reput.queue.kinds import QueueKind, ReadableQueues
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.recover.recovery import find_start_of

_ENTRIES_A_TASK = 1 << 20
_QUEUES_A_TASK = 20_000
_NAMED = 5
_NO_ODDITIES = SplitOddities(0, 0, 0, -1, 0, -1)


def convert_queues(run: Rebuild) -> None:
    """Build the queues of the job's kinds from those of another kind, compare them with it, and swap them in."""
    chosen, kinds = choose_source(run.store)
    source = _source(run, chosen, kinds)
    with run.stage("list"):
        tasks = plan_tasks(_queues(run, chosen, source.covered), _ENTRIES_A_TASK, _QUEUES_A_TASK)
    if not tasks:
        raise DamagedStoreError(
            f"{chosen.folder}: the {chosen.name} queues have no entry of a record that the log still has. "
            "Convert from the log: --source log"
        )
    with run.stage("read"):
        taken = run.engine.run(partial(take_entries, run.job, source), tasks, run.listener.advance)
    _judge(run, chosen, taken)
    queues = merge(run, (), [_as_result(run, one) for one in taken], {}, source.covered)
    retained = build_queues(run, queues, lambda: None)
    with run.stage("verify"):
        _verify(run, source, tasks)
    report = run.report
    report.log_min_offset, report.log_max_offset = run.log.min_offset, source.covered
    report.topics = topic_summaries(queues.table)
    report.queues = sum(topic.queues for topic in report.topics) + len(retained)
    report.queue_entries = report.messages = sum(one.entries - one.blanks for one in taken)
    report.notes.append(
        f"from the entries of the {chosen.name} queues, which are complete up to log offset {source.covered}; the "
        "next owner of the store reads the rest of the log"
    )
    last = max(taken, key=lambda one: one.last_record)
    publish.publish(run, run.log, report, partial(_new_state, run, source, last))


def _source(run: Rebuild, kind: ReadableQueues, kinds: Sequence[QueueKind]) -> Source:
    """Return where to read, and how far the queues are complete.

    Raises:
        ConfigError: nothing says how far; no byte need be wrong.
    """
    with run.store.maps() as log:
        covered = find_start_of(run.store, log, kinds, run.settings, run.store.index_shown).frontiers.queue_offset
    if covered <= run.log.min_offset:
        raise ConfigError(
            f"{kind.folder}: nothing says how far the {kind.name} queues are complete, as after a crash. "
            "Convert from the log: --source log"
        )
    settings = run.settings
    return Source(
        run.layout,
        kind,
        settings.queue_file_size,
        settings.ext_file_size,
        run.job.ext is not None,
        run.log.file_size,
        run.log.end_offset,
        covered,
    )


def _queues(run: Rebuild, kind: ReadableQueues, covered: int) -> list[QueueRange]:
    """Return the queues with entries of records that the log still has, in the order of RocksDB's keys."""
    found = []
    for queue in kind.queues():
        if not paths.is_topic_folder_name(queue.key.topic) or queue.key.queue_id < 0:
            continue
        odd = queue.oddities()
        for damage in (*odd.damage, *(f"{found}. Run `reput rebuild --only queue`" for found in odd.missing)):
            raise DamagedStoreError(f"{damage}, or convert from the log: --source log")
        span = queue.span(run.log.min_offset, covered)
        if span.last is not None and span.min_offset < span.max_offset:
            found.append(QueueRange(queue.key, span.min_offset, span.max_offset))
    return sorted(found, key=lambda queue: key_order(queue.key))


def _judge(run: Rebuild, kind: ReadableQueues, taken: list[ReadCounts]) -> None:
    """Report what is odd about the entries that were read.

    Raises:
        DamagedStoreError: ext units are wanted, which need the records, and some records are missing.
    """
    blanks, lost = sum(one.blanks for one in taken), sum(one.without_record for one in taken)
    if blanks:
        run.report.notes.append(f"{blanks} queue offsets without a message: they have blank entries")
    if not lost:
        return
    found = f"{lost} entries of the {kind.name} queues refer to places in {run.layout.commit_log} without such a record"
    if run.job.ext is not None:
        raise DamagedStoreError(
            f"{found}, and ConsumeQueueExt is built from records. Convert from the log: --source log --salvage"
        )
    run.report.warnings.append(
        f"{found}: they were kept as they are, with the store times of the entries before them (`reput check` says "
        "which; --source log --salvage leaves them out)"
    )


def _as_result(run: Rebuild, taken: ReadCounts) -> SplitResult:
    """Return the result of a task as the stages after decoding know it; without what only records contain."""
    return SplitResult(
        number=taken.number,
        begin=run.log.min_offset,
        first_record=run.log.min_offset,
        chain_end=run.log.min_offset,
        gaps=(),
        open_verdict=None,
        records=taken.entries,
        items=0,
        queue_entries=taken.entries,
        records_after_last_item=0,
        last_record=taken.last_record,
        last_record_size=taken.last_record_size,
        first_store_timestamp=-1,
        last_store_timestamp=-1,
        max_store_timestamp=-1,
        oddities=_NO_ODDITIES,
    )


def _verify(run: Rebuild, source: Source, tasks: list[SourceTask]) -> None:
    compared = run.engine.run(partial(compare_staged, run.job, source), tasks, run.listener.advance)
    wrong = [text for found in compared for text in found]
    if wrong:
        raise DamagedStoreError(
            f"{run.job.queue_folder}: the new queues, read back, are not the old ones: {'; '.join(wrong[:_NAMED])} "
            f"({len(wrong)} in all). The old ones are live. Check the disk, and that no other process writes"
        )


def _new_state(run: Rebuild, source: Source, last: ReadCounts) -> publish.Published:
    layout = run.layout
    old = read_checkpoint(layout)
    with run.store.maps() as log:
        # What was after the old queues' end is after the new ones' end too.
        time = log.store_time(last.last_record) if log.record(last.last_record, last.last_record_size) else -1
    new = old._replace(
        logics_msg_timestamp=min(old.logics_msg_timestamp, max(time, 0)),
        logics_physical_offset=min(old.logics_physical_offset, last.last_record),
    )
    frontier = run.store.frontier
    if frontier is not None:
        at = min(frontier.queue_offset, source.covered)
        frontier = frontier._replace(epoch=run.owned.epoch, queue_offset=at)
    return publish.Published(new, frontier, queue_parts(run))
