"""The pages of docs/ show what their commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.scripts import load

if TYPE_CHECKING:
    from pathlib import Path

REMEDY = "make docs writes the output that the commands have now"


pages = load("pages")


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    """Each command of a page, run on the store that the page names, prints what the page shows."""
    text = page.read_text("utf-8")
    assert pages.renewed(text).splitlines() == text.splitlines(), REMEDY


def test_a_change_of_output_is_seen() -> None:
    """Another number in a page's output is replaced; another time or speed is not."""
    command = "<!-- store: basic -->\n```console\n$ reput info /data/store | grep -e ^index -e ^stored\n"
    right = "stored      2026-11-21 02:37:31.552+00:00 to 2026-11-21 02:37:33.943+00:00\n"
    right += "index       4 IndexFiles, 7,319 items, 164.2 KiB\n```"
    assert pages.renewed(f"{command}{right.replace('7,319', '7,318')}") == f"{command}{right}"
    assert pages.renewed(f"{command}{right.replace('02:37:31', '11:11:11')}") == (
        f"{command}{right.replace('02:37:31', '11:11:11')}"
    )


def test_the_picture_shows_what_its_commands_print() -> None:
    """The picture of the terminal is what its commands print now."""
    drawn = pages.PICTURE.read_text("utf-8")
    assert pages.pictured(pages.terminal_picture()) == pages.pictured(drawn), REMEDY
