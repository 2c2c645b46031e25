"""The list of mutations: a promise, the place in the source that keeps it, and the tests that fail without it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "reput"


class MutationError(Exception):
    """A mutation does not fit the source any more; the text names both."""


class Mutation(NamedTuple):
    """One broken promise.

    Attributes:
        title: what is broken, in a few words.
        promise: what the store promises.
        file: the module below src/reput.
        old: its text, which is there exactly once.
        new: the text that breaks the promise.
        tests: the tests that fail then, by file and function, also by case; at least one case of each fails.
    """

    title: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """Return the changed source.

        Raises:
            MutationError: the old text is not there exactly once.
        """
        found = source.count(self.old)
        if found != 1:
            raise MutationError(
                f"{self.title}: src/reput/{self.file} has this text {found} times, and not once:\n{self.old}\n"
                "The source has changed: give the mutation in tests/support/mutations/promises.py the new text"
            )
        return source.replace(self.old, self.new)


MUTATIONS = (
    Mutation(
        "skip the sync of the log",
        "With sync flush a put returns once its message is on the disk.",
        "log/append/append_file.py",
        "            fs.sync_data(self.descriptor)",
        "            pass",
        (
            "faults/test_power_cuts.py::test_power_cut_at_every_call[put]",
            "log/test_append_faults.py::test_a_flush_syncs_full_files_new_names_and_no_more",
        ),
    ),
    Mutation(
        "skip the sync of the log's folder",
        "A message in a new file of the log is durable, its file's name included.",
        "log/append/append.py",
        "                    fs.sync_path(self.folder)",
        "                    pass",
        (
            "faults/test_power_cuts.py::test_power_cut_at_every_call[roll]",
            "log/test_append_faults.py::test_a_flush_syncs_full_files_new_names_and_no_more",
        ),
    ),
    Mutation(
        "forget a failed sync",
        "After a sync has failed the log takes no more puts: what the disk has kept is unknown.",
        "log/append/append.py",
        "        self._stopped = self._stopped or stopped\n        self._end.shut()",
        "        pass",
        ("log/test_append_faults.py::test_a_failed_flush_is_never_forgotten",),
    ),
    Mutation(
        "believe a sync after one that failed",
        "After a sync of the log has failed, in whatever program, nobody calls the log durable.",
        "store/owner/owner.py",
        "        if self.is_unsynced():\n            raise",
        "        if False:\n            raise",
        ("store/test_unsynced.py::test_a_catch_up_that_could_not_sync_the_log_stops_its_writer",),
    ),
    Mutation(
        "begin a log file before the one before it has a length",
        "A power cut leaves no empty file of the log before one that has data.",
        "log/append/append_file.py",
        "                    fs.sync(self.descriptor)",
        "                    pass",
        ("log/test_rolling.py::test_no_power_cut_leaves_an_empty_file_or_a_hole_before_another",),
    ),
    Mutation(
        "confirm a batch before its bytes are there",
        "A reader that sees a message finds its record.",
        "log/append/append.py",
        "                result = batch.encode(",
        "                self._confirmed[0] = end\n                result = batch.encode(",
        ("log/test_append.py::test_a_batch_is_confirmed_after_its_bytes_are_there",),
    ),
    Mutation(
        "confirm before the flush",
        "With sync flush readers see a message once it is durable.",
        "log/append/append.py",
        "self._confirm_writes = not settings.sync_flush and not buffered",
        "self._confirm_writes = not buffered",
        ("log/test_append.py::test_positions",),
    ),
    Mutation(
        "leave out the blank record",
        "A file of the log that is full ends with a blank record.",
        "log/append/rolling.py",
        "        file.memory[position : position + BLANK_SIZE] = encode_blank(left)",
        "        pass",
        ("log/test_append.py::test_a_file_ends_with_a_blank_record",),
    ),
    Mutation(
        "leave the bytes after a cut",
        "A cut log has zeros after its end: a stale record there would look like a new one.",
        "store/write/cut.py",
        "            zero(path, log.file_size, owner, max(0, end - start), min(log.file_size, end + written - start))",
        "            pass",
        ("store/test_recovery.py::test_torn_tail_is_cut",),
    ),
    Mutation(
        "cut what was durable",
        "A bad record that was once durable is damage, and never a reason to cut the log.",
        "store/recover/recovery.py",
        "    if why:\n        raise DamagedLogError(",
        "    if False:\n        raise DamagedLogError(",
        ("store/test_recovery.py::test_what_was_flushed_is_never_cut",),
    ),
    Mutation(
        "cut what a queue of a closed store names",
        "A queue of a closed store that has an entry for a record proves that the record was whole.",
        "store/recover/bad_end.py",
        "                if last >= end:",
        "                if last > end:",
        ("store/test_bad_end.py::test_the_last_record_of_a_store_that_a_broker_closed_was_cut",),
    ),
    Mutation(
        "keep no good records",
        "Good records after a bad one are kept before the log of a killed broker is cut.",
        "store/write/kept_records.py",
        "    if tail.following < 0 or _was_put_by_reput(layout, tail, owned):",
        "    if tail.following or _was_put_by_reput(layout, tail, owned):",
        ("store/test_bad_end.py::test_good_records_after_a_bad_one_of_a_killed_broker_were_destroyed",),
    ),
    Mutation(
        "rename before the sync",
        "A small file is replaced whole: the old bytes or the new ones are there after a crash.",
        "files/fs.py",
        "            pwrite(descriptor, data, 0)\n            sync(descriptor)",
        "            pwrite(descriptor, data, 0)",
        ("faults/test_power_cuts.py::test_power_cut_at_every_call[progress]",),
    ),
    Mutation(
        "swap without a sync of staging",
        "New indexes go live once they are durable.",
        "store/owner/swap.py",
        "    fs.sync_tree(layout.staging(epoch))\n",
        "",
        ("faults/test_power_cuts.py::test_power_cut_at_every_call[rebuild]",),
    ),
    Mutation(
        "write the intent after the renames",
        "A rebuild that dies in its swap leaves the old indexes or the new ones, never a mix.",
        "store/owner/swap.py",
        "        fs.write_whole(layout.own(own.INTENT_NAME), own.encode_intent(intent))\n"
        "        count()\n"
        "        _swap_all(layout, intent)",
        "        count()\n"
        "        _swap_all(layout, intent)\n"
        "        fs.write_whole(layout.own(own.INTENT_NAME), own.encode_intent(intent))",
        ("faults/test_killed.py::test_killed_at_every_call[rename-kill]",),
    ),
    Mutation(
        "let an answer count whose files were replaced",
        "A reader that is open while indexes are swapped answers from the old ones or the new ones.",
        "store/read/again.py",
        "            else:\n                newer = _newer(view)",
        "            else:\n                newer = view",
        ("store/test_beside_swaps.py::test_a_question_between_two_renames_was_an_error",),
    ),
    Mutation(
        "move the new part aside, and not the old one",
        "A swap moves the old part aside before the new one takes its name.",
        "store/owner/swap.py",
        "        fs.rename(live, aside)\n    _make_live_parent(live)\n    fs.rename(staged, live)",
        "        fs.rename(staged, aside)\n    _make_live_parent(live)\n    fs.rename(live, staged)",
        ("faults/test_killed.py::test_killed_at_every_call[rename-kill]",),
    ),
    Mutation(
        "believe any intent",
        "An intent names parts of the store only: it cannot move files of others.",
        "formats/own/files.py",
        "        if not isinstance(part, str) or not is_swap_part(part):",
        "        if not isinstance(part, str):",
        ("faults/test_owners.py::test_hostile_intent",),
    ),
    Mutation(
        "put the frontier one byte too far",
        "The frontier is the end of the last indexed record, and reading goes on there.",
        "pipeline/build/publish.py",
        "        queue_offset=reached.end,",
        "        queue_offset=reached.end + 1,",
        ("pipeline/follow/test_follow.py::test_durable_follows_visible",),
    ),
    Mutation(
        "trim one entry too many",
        "A message is in the indexes or in the tail: always in one of them.",
        "queue/tail.py",
        "        return physical_offset >= frontier_offset",
        "        return physical_offset > frontier_offset",
        ("sim/test_simulation.py::test_any_order_of_steps",),
    ),
    Mutation(
        "write the frontier before the indexes are durable",
        "Indexes below the durable frontier are durable, and the log below them.",
        "pipeline/build/publish.py",
        "    owned.sync()\n    if not log_is_ours",
        "    if not log_is_ours",
        ("faults/test_power_cuts.py::test_power_cut_at_every_call[reput]",),
    ),
    Mutation(
        "call the log durable without a sync",
        "The checkpoint calls a log durable that is durable.",
        "pipeline/build/publish.py",
        "            sync_log(log)\n",
        "            pass\n",
        ("faults/test_swap.py::test_the_log_is_durable_before_the_checkpoint_that_says_so",),
    ),
    Mutation(
        "write a checkpoint that is too new",
        "The checkpoint has the time of the last record, so that RocketMQ keeps what is sound and cuts what is not.",
        "pipeline/build/rebuild/new_state.py",
        "new._replace(physic_msg_timestamp=last.last_store_timestamp,",
        "new._replace(physic_msg_timestamp=last.last_store_timestamp + 1000,",
        ("pipeline/build/rebuild/test_golden_rebuild.py::test_checkpoint_says_what_is_there",),
    ),
    Mutation(
        "believe a frontier of another log",
        "A frontier counts if the log still has the record below it that its fingerprint names.",
        "store/recover/recovery.py",
        "    if not log.has_record(fingerprint):",
        "    if not offset:",
        ("store/test_recovery.py::test_a_log_that_another_writer_changed_below_the_frontier",),
    ),
    Mutation(
        "join splits without a proof",
        "A parallel decoding equals one pass in order, also if a body imitates a record.",
        "pipeline/split/stitch.py",
        "    if not covered and result.first_record == expected:",
        "    if not covered and result.first_record >= 0:",
        (
            "pipeline/split/test_imitation.py::test_any_border",
            "pipeline/build/rebuild/test_parts_of_a_rebuild.py::test_stitch_decodes_a_wrong_split_again",
        ),
    ),
    Mutation(
        "leave out a check of lengths",
        "A record's lengths add up to its size, or it is no record.",
        "kernels/compiled/examine.py",
        "    if properties_length < 0 or properties_at + properties_length != end:",
        "    if properties_length < 0:",
        ("kernels/test_decode.py::test_twins_agree_on_damaged_logs",),
    ),
    Mutation(
        "ignore the CRC",
        "A record whose CRC does not match is no record.",
        "kernels/compiled/examine.py",
        "            verdict = BAD_CRC\n    elif",
        "            verdict = GOOD\n    elif",
        (
            "pipeline/build/rebuild/test_damage.py::test_bad_crc_in_the_middle",
            "pipeline/check/test_check.py::test_a_damaged_body_is_found",
        ),
    ),
    Mutation(
        "store a repeated offset again",
        "The first record of a repeated queue offset wins.",
        "queue/order.py",
        "            repeats = -(-(min(next_offset, end) - first) // width) * width",
        "            repeats = 0",
        ("queue/test_order.py::test_known_cases",),
    ),
    Mutation(
        "give the numbers of a queue again",
        "A queue gives no number twice, also after it has lost its files.",
        "store/write/numbers.py",
        "        end, loss = view.goes_on_at(QueueKey(topic, queue_id), end)",
        '        loss = ""',
        (
            "store/test_given_offsets.py::test_a_queue_of_a_closed_store_that_lost_files_gave_its_numbers_again",
            "store/test_given_offsets.py::test_a_log_of_a_closed_store_that_lost_its_end_gave_numbers_again",
        ),
    ),
    Mutation(
        "begin beside a writer that has gone",
        "A follower begins beside a writer only if nobody has owned the store since it looked.",
        "store/owner/owner.py",
        "            if self.stage or self.is_beside:",
        "            if self.stage:",
        ("store/test_owner.py::test_a_follower_began_beside_a_writer_that_had_gone",),
    ),
    Mutation(
        "keep the epoch between stages",
        "An attempt that was given up does not write into the files of a later stage.",
        "store/owner/owner.py",
        '            self.watermarks["epoch"] += 1\n',
        "",
        ("faults/test_links_and_late_tasks.py::test_a_late_attempt_of_a_stage_that_is_over_cannot_write",),
    ),
    Mutation(
        "let tasks of two owners write",
        "The next owner of a store waits for the tasks of the one before.",
        "files/locks.py",
        "    with _flocked(path, fcntl.LOCK_EX, wait_s) as held:",
        "    with _flocked(path, fcntl.LOCK_SH, wait_s) as held:",
        ("faults/test_owners.py::test_next_owner_waits_for_orphans",),
    ),
    Mutation(
        "write beside a live broker",
        "reput refuses to write into a store that a broker holds.",
        "files/locks.py",
        "            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)",
        "            pass",
        ("files/test_locks_and_watermarks.py::test_a_broker_is_told_from_reput",),
    ),
    Mutation(
        "leave out the slots of an IndexFile",
        "A reader of an IndexFile finds each item by its slot.",
        "pipeline/build/index/write.py",
        "        write_slots(self._descriptor, self._slots, changed)\n",
        "        write_slots(self._descriptor, self._slots, changed[:0])\n",
        ("pipeline/follow/test_catch_up.py::test_steps_equal_a_rebuild",),
    ),
    Mutation(
        "save progress without a backup",
        "The table of offsets before the last save is kept as a backup.",
        "files/backed_up.py",
        "            fs.write_whole(backup_of(self.path), self._written, owner)",
        "            pass",
        ("store/test_progress.py::test_backup_is_one_step_behind",),
    ),
    Mutation(
        "delete expired files of the log at once",
        "Of expired files of the log the first ones go durably first, so that a crash leaves no hole.",
        "log/append/clean.py",
        "        fs.sync_path(folder)\n",
        "",
        ("faults/test_power_cuts.py::test_deleted_log_files_leave_no_hole",),
    ),
    Mutation(
        "remove a deleted queue before its deletion is durable",
        "A deleted queue is there whole, or gone: no power cut brings a part of it back.",
        "store/owner/swap.py",
        "                fs.sync_path(folder)\n",
        "                pass\n",
        ("faults/test_power_cuts.py::test_a_queue_whose_deletion_was_not_synced_is_there_whole_or_gone",),
    ),
)
