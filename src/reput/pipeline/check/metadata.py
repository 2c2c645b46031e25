"""Findings about topics, groups and committed offsets: what cannot be read, and values that are not the broker's."""

from __future__ import annotations

from reput.errors import DamagedStoreError, NewerDatabaseError
from reput.pipeline.check.rules import LEFTOVER, NOTE
from reput.pipeline.check.state import Check
from reput.store.metadata.tables import Content, Table


def metadata_findings(check: Check) -> None:
    """Report what a broker cannot load of the files or databases of metadata that count.

    A note of the settings that a finding says is taken out of the report.
    """
    metadata, report = check.store.metadata, check.report
    said: set[str] = set()
    for table in Table:
        try:
            contents = [part.content for part in metadata.parts(table)]
        except DamagedStoreError as error:
            # One database may have all tables.
            if str(error) in said:
                continue
            if isinstance(error, NewerDatabaseError):
                report.damage("metadata-newer", str(metadata.place(table)), None, 1, str(error))
            else:
                report.damage("metadata-damaged", str(metadata.place(table)), None, 1, str(error))
            said.add(str(error))
            continue
        for content in contents:
            _findings_of(content, check, said)
            said.update(content.notes)
    report.notes = [note for note in report.notes if not note.startswith(tuple(said))]


def _findings_of(content: Content, check: Check, said: set[str]) -> None:
    report, place = check.report, str(content.place)
    if content.left_out:
        report.damage("metadata-value-wrong", place, None, content.left_out, "; ".join(content.damage))
    if content.newer and content.newer not in said:
        # A broker that does not know such keys passes them over, and starts.
        report.remark(NOTE, "metadata-newer", place, 1, content.newer)
    others = [note for note in content.notes if note not in (*content.damage, content.newer)]
    if others:
        # A kill while the broker wrote the file leaves it empty or cut, and the broker reads the backup.
        report.remark(LEFTOVER, "metadata-from-backup", place, 1, "; ".join(others))
