"""docs/formats.md says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reput.formats import own, record
from reput.formats.documentation import COMMAND, PROPERTY_NAMES, SYS_FLAG_BITS, formats_document

FILE = Path(__file__).parent.parent.parent / "docs" / "formats.md"


def test_the_file_is_up_to_date() -> None:
    """docs/formats.md is what the lists of fields make of it; the command in it makes it anew."""
    assert FILE.read_text(encoding="utf-8") == formats_document(), f"out of date: {COMMAND}"


def test_the_command_prints_it() -> None:
    """`python -m reput.formats` prints the document, as UTF-8 on any locale."""
    done = subprocess.run([sys.executable, "-m", "reput.formats"], capture_output=True, check=True)

    assert done.stdout.decode() == formats_document()


def test_every_layout_is_in_it() -> None:
    """Our own layouts and every part of a record have their row."""
    document = formats_document()

    assert all(f"### {layout.title}" in document for layout in own.LAYOUTS)
    assert all(f"| `{name}` |" in document for name, _, _ in record.RECORD_PARTS)


@pytest.mark.parametrize("prefix", ["FLAG_", "TRANSACTION_"])
def test_every_sys_flag_is_in_it(prefix: str) -> None:
    """Each bit that the code names is in the table of sysFlag."""
    named = {value for name, value in vars(record).items() if name.startswith(prefix)}

    assert named <= {bits for mask, value, _ in SYS_FLAG_BITS for bits in (mask, value)}


def test_every_property_is_in_it() -> None:
    """Each property that the code names is in the table."""
    named = {value for name, value in vars(record.props).items() if name.isupper() and isinstance(value, bytes)}

    assert named - {record.props.KEY_SEPARATOR, record.props.QUEUE_SEPARATOR} == {name for name, _ in PROPERTY_NAMES}


def test_tables_are_whole() -> None:
    """Each table's rows have as many cells as its head."""
    for table in re.findall(r"(?:^\|.*\n?)+", formats_document(), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
