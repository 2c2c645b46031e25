"""Findings about topics, groups and committed offsets: what cannot be read, and values that are not the broker's."""

from __future__ import annotations

from reput.errors import DamagedStoreError
from reput.pipeline.check.rules import LEFTOVER
from reput.pipeline.check.state import Check
from reput.store.metadata.tables import Table


def metadata_findings(check: Check) -> None:
    """Report what a broker cannot load of the files or databases of metadata that count."""
    metadata = check.store.metadata
    reported: set[str] = set()
    for table in Table:
        try:
            contents = [part.content for part in metadata.parts(table)]
        except DamagedStoreError as error:
            # One database may have all tables.
            if str(error) not in reported:
                check.report.damage("metadata-damaged", str(metadata.place(table)), None, 1, str(error))
            reported.add(str(error))
            continue
        for content in contents:
            detail = "; ".join(content.notes)
            if content.left_out:
                check.report.damage("metadata-value-wrong", str(content.place), None, content.left_out, detail)
            elif detail:
                # A kill while the broker wrote the file leaves it empty or cut, and the broker reads the backup.
                check.report.remark(LEFTOVER, "metadata-from-backup", str(content.place), 1, detail)
