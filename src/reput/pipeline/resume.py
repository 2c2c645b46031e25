"""Goes on where a conversion was killed: what its finished tasks have left is proved, and taken over.

A killed run leaves its staging folder. The next one takes it over where it is the same conversion of the same store,
which nobody else has changed meanwhile (`identity`); everything in it that no finished task vouches for is removed.
Only tasks' work is taken over: what the driver finds out, decides, verifies and swaps in is done anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Generic

from reput.files import fs
from reput.formats import paths
from reput.formats import resume as fmt
from reput.pipeline.done import A, R, Stage, believed, do_and_record, done_folder, placed_queues
from reput.pipeline.job import Job
from reput.pipeline.rebuild_state import LOG, Run
from reput.pipeline.sink import queue_path
from reput.pipeline.task_values import from_json, to_json
from reput.store.report import RebuildReport, StageTakenOver

_OF_ONE_RUN = {"reput_folder", "staging", "epoch", "sync_in_tasks", "fenced", "begun"}
"""Fields of a job that make no difference to what its tasks leave."""

WHY = {
    "kinds": "it was to make other queues",
    "source": "it was to make them from something else",
    "log": "the log has changed since then",
    "settings": "settings have changed since then",
    "store": "the store's checkpoint or config/ has changed since then, or it has been moved",
}
"""What another run can differ in, and how that is said, in the order in which it is looked for."""


def begin_staging(run: Run, source: str = "") -> None:
    """Make the staging folder, of what a killed run has left where that can be gone on with.

    `source` names what else the tasks' results hang on.
    """
    job = run.job
    if run.options.resumable:
        what = identity(run, source)
        if run.owned.left is not None:
            _take_over(run, what)
        fs.make_dirs(done_folder(job), job.owner)
        fs.make_dirs(job.parts_folder, job.owner)
        fs.write_whole(f"{job.staging}/{fmt.RESUME_NAME}", fmt.encode_resume(what))
        return
    for folder in (job.staging, job.parts_folder):
        fs.make_dirs(folder, job.owner)


def identity(run: Run, source: str = "") -> dict[str, str]:
    """What must be the same for two runs to leave the same: the texts of `WHY`."""
    options, layout = run.options, run.layout
    log = [(file.path.name, file.data_end, fs.stamp_of(file.path)) for file in run.log.files]
    settings = {field.name: to_json(getattr(run.job, field.name)) for field in fields(run.job)}
    told = {name: value for name, value in settings.items() if name not in _OF_ONE_RUN}
    of_the_log = (options.salvage, options.split_mb, options.verify_crc) if options.source == LOG else ()
    more = (fmt.FORMAT_VERSION, sys.byteorder, *of_the_log)
    others = [layout.checkpoint, *(layout.root / paths.CONFIG / one.name for one in _config(run))]
    return {
        "kinds": " ".join(run.job.kinds),
        "source": f"{options.source} {source}",
        "log": json.dumps(log),
        "settings": json.dumps([told, more], sort_keys=True),
        "store": json.dumps(
            [str(layout.root), str(layout.commit_log), *((one.name, fs.stamp_of(one)) for one in others)]
        ),
    }


def _config(run: Run) -> list[fs.DirEntry]:
    return [one for one in fs.list_dir(run.layout.root / paths.CONFIG) if not one.is_dir]


def _take_over(run: Run, what: dict[str, str]) -> None:
    assert run.owned.left is not None
    old = run.layout.staging(run.owned.left)
    data = fs.read_bytes(old / fmt.RESUME_NAME, fmt.MOST_BYTES)
    told = fmt.decode_resume(data) if data is not None else None
    if told is None:
        why = "the file that says what it was is damaged"
    else:
        why = next((text for name, text in WHY.items() if told.get(name) != what[name]), "")
    if why:
        fs.remove_tree(old)
        run.report.notes.append(f"an earlier conversion was killed; this one begins again, because {why}")
        return
    fs.rename(old, run.job.staging)
    _remove_what_nobody_vouches_for(run.job)
    run.resumes = True


def _remove_what_nobody_vouches_for(job: Job) -> None:
    staging, kept = Path(job.staging), set[str]()
    for entry in fs.list_dir(done_folder(job)):
        path = Path(done_folder(job)) / entry.name
        data = None if entry.is_dir or entry.name.endswith(".tmp") else fs.read_bytes(path, fmt.MOST_BYTES)
        done = fmt.decode_done(data) if data is not None else None
        if done is None:
            fs.remove_tree(path)
        else:
            kept.update(file.name for file in done.files)
    queues, left = Path(job.queue_folder), Path(job.parts_folder)
    for folder, of_ours in (
        (staging, {fmt.RESUME_NAME, fmt.DONE_FOLDER, queues.name, left.name}),
        (left, kept),
        # Other files there are a database's, which is made anew.
        (queues, {entry.name for entry in fs.list_dir(queues) if entry.is_dir}),
    ):
        for entry in fs.list_dir(folder):
            if entry.name not in of_ours:
                fs.remove_tree(folder / entry.name)


def stage_report(run: Run) -> None:
    """Let whoever finds the swap done know what there is to report; the last thing before it."""
    if not run.options.resumable:
        return
    stamp = fs.stamp_of(f"{run.job.staging}/{paths.CHECKPOINT}")
    assert stamp is not None
    finished = fmt.Finished(to_json(run.report), stamp)
    fs.write_whole(f"{run.job.staging}/{fmt.REPORT_NAME}", fmt.encode_report(finished), run.job.owner)


def finished_report(run: Run) -> RebuildReport | None:
    """The report of a run of this conversion that was killed in its swap, or behind it: that is finished by now."""
    if not run.options.resumable or run.owned.finished is None:
        return None
    told, finished = fmt.decode_resume(run.owned.finished[0]), fmt.decode_report(run.owned.finished[1])
    if told is None or finished is None or finished.checkpoint != fs.stamp_of(run.layout.checkpoint):
        return None
    # The rest has changed with the swap: the checkpoint, and what the files of the old kind tell.
    now = identity(run)
    if any(told.get(name) != now[name] for name in ("kinds", "log")):
        return None
    if told.get("source", "").partition(" ")[0] != run.options.source:
        return None
    try:
        report = from_json(finished.report, RebuildReport)
    except (TypeError, ValueError):
        return None
    if run.owned.left is not None:
        fs.remove_tree(run.layout.staging(run.owned.left))
    said = "an earlier run of this conversion had come to its swap: nothing was left to do"
    report.notes[:0] = [*run.owned.notes, said]
    return report


def drop_parts(run: Run) -> None:
    """Remove what only stages have read, before the swap; where another run may need it, it goes with the swap."""
    if not run.options.resumable:
        fs.remove_tree(run.job.parts_folder)


class Resumed(Generic[A, R]):
    """The tasks of one stage: those that an earlier run has done, proved by now, and those that are left to do."""

    def __init__(self, run: Run, stage: Stage[A, R], arguments: Sequence[A]) -> None:
        self._run = run
        self._stage = stage
        self._arguments = arguments
        self._done: dict[int, R] = {}
        if run.resumes:
            with run.stage("take over"):
                self._believe()
        self.left = [one for one in arguments if one.number not in self._done]

    def _believe(self) -> None:
        run, stage = self._run, self._stage
        present = {entry.name for entry in fs.list_dir(done_folder(run.job))}
        asked = [one for one in self._arguments if fmt.done_name(stage.name, one.number) in present]
        found = run.engine.run(partial(_believed_task, run.job, stage), asked, run.listener.advance)
        for one, result in zip(asked, found, strict=True):
            if result is not None:
                self._done[one.number] = result
        if stage.places:
            _remove_other_queues(run.job, sorted(self._done))
        entries = sum(stage.entries(result) for result in self._done.values())
        run.report.taken_over.append(StageTakenOver(stage.name, len(self._done), len(self._arguments), entries))
        if refused := len(asked) - len(self._done):
            run.report.notes.append(
                f"{stage.name}: {refused} of {len(asked)} parts that an earlier run had finished are made again, "
                "because they are not as it left them"
            )

    def complete(self) -> list[R]:
        """Do what is left to do; returns the results of all tasks."""
        run = self._run
        task = partial(_do_task, run.job, self._stage) if run.options.resumable else partial(self._stage.do, run.job)
        done = run.engine.run(task, self.left, run.listener.advance)
        results = self._done | {one.number: result for one, result in zip(self.left, done, strict=True)}
        return [results[one.number] for one in self._arguments]


def _remove_other_queues(job: Job, numbers: Sequence[int]) -> None:
    """Remove the staged folders of queues of which none of these tasks has entries."""
    wanted = {queue_path(job.queue_folder, key) for key in placed_queues(job, numbers)}
    topics = {path.rpartition("/")[0] for path in wanted}
    for topic in fs.list_dir(job.queue_folder):
        folder = f"{job.queue_folder}/{topic.name}"
        if folder not in topics:
            fs.remove_tree(folder)
            continue
        for queue in fs.list_dir(folder):
            if f"{folder}/{queue.name}" not in wanted:
                fs.remove_tree(f"{folder}/{queue.name}")


def _do_task(job: Job, stage: Stage[Any, R], argument: Any) -> R:
    return do_and_record(job, stage, argument)


def _believed_task(job: Job, stage: Stage[Any, R], argument: Any) -> R | None:
    return believed(job, stage, argument)
