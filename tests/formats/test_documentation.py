"""docs/formats.md says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from reput.formats.log import record
from support.layouts import every_layout
from support.scripts import FOLDER, load

formats = load("formats")


def test_the_file_is_up_to_date() -> None:
    """docs/formats.md is what the lists of fields make of it; the command in it makes it anew."""
    assert formats.FILE.read_text(encoding="utf-8") == formats.formats_document(), f"out of date: {formats.COMMAND}"


def test_the_command_writes_it() -> None:
    """`python scripts/formats.py` writes the document, as UTF-8 on any locale; a file that is up to date stays."""
    before = formats.FILE.read_bytes()
    subprocess.run([sys.executable, str(FOLDER / "formats.py")], check=True, env={"LC_ALL": "C"})
    assert formats.FILE.read_bytes() == before


def test_every_layout_is_in_it() -> None:
    """Every layout of formats has its table, and every part of a record its row."""
    document = formats.formats_document()
    of_records = (record.HEAD, record.BEFORE_BODY_V4, record.TOPIC_LENGTH_V1, record.TOPIC_LENGTH_V2)
    of_records += (record.PROPERTIES_LENGTH,)
    layouts = [layout for layout in every_layout() if layout not in of_records]

    assert not [layout.title for layout in layouts if formats._layout(layout) not in document]
    assert all(f"| `{name}` |" in document for name, _, _ in record.RECORD_PARTS)
    assert {name for layout in of_records for name in layout.offsets} <= {name for name, _, _ in record.RECORD_PARTS}


@pytest.mark.parametrize("prefix", ["FLAG_", "TRANSACTION_"])
def test_every_sys_flag_is_in_it(prefix: str) -> None:
    """Each bit that the code names is in the table of sysFlag."""
    named = {value for name, value in vars(record).items() if name.startswith(prefix)}

    assert named <= {bits for mask, value, _ in formats.SYS_FLAG_BITS for bits in (mask, value)}


def test_every_property_is_in_it() -> None:
    """Each property that the code names is in the table."""
    named = {value for name, value in vars(record.props).items() if name.isupper() and isinstance(value, bytes)}

    separators = {
        getattr(record.props, name) for name in ("KEY_SEPARATOR", "QUEUE_SEPARATOR", "NAME_END", "PROPERTY_END")
    }
    assert named - separators == {name for name, _ in formats.PROPERTY_NAMES}


def test_tables_are_whole() -> None:
    """Each table's rows have as many cells as its head."""
    for table in re.findall(r"(?:^\|.*\n?)+", formats.formats_document(), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
