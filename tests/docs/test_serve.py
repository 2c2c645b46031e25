"""docs/tasks/serve.md names each request that the broker serves, and none that it refuses."""

from __future__ import annotations

import re
from pathlib import Path

from reput.broker.handlers.sends import SEND_CODES
from reput.broker.handlers.table import HANDLERS
from reput.broker.wire.codes import RequestCode

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "serve.md"
ROW = re.compile(r"^\|[^|]*\|([ \d,]*(?:and others)? *)\| (served|refused)", re.MULTILINE)
SENT = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
}
"""The requests that the broker sends to clients."""


def codes(state: str) -> list[int]:
    """Return the request codes of the rows in this state."""
    text = PAGE.read_text("utf-8").split("## What is supported")[1].split("\n## ")[0]
    return [int(code) for found, its in ROW.findall(text) if its == state for code in re.findall(r"\d+", found)]


def test_the_page_names_what_is_served() -> None:
    """Each code of a handler, of a send or of a request to clients is in one row that is served, and no other code."""
    assert sorted(codes("served")) == sorted({*HANDLERS, *SEND_CODES, *SENT})
    assert sorted({*HANDLERS, *SEND_CODES, *SENT}) == sorted(RequestCode)


def test_the_page_names_what_is_refused() -> None:
    """No code of a row that is refused has a handler."""
    refused = codes("refused")
    assert refused
    assert not {*HANDLERS, *SEND_CODES} & {*refused}
