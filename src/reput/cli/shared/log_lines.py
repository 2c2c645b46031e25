"""Lines of a program's log on stderr: for people, or a JSON object each for programs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from reput.cli.shared import output

TEXT, JSON = FORMATS = ("text", "json")
FIELDS: Final = ("connection", "code", "remote")
"""The fields of a line of JSON beside time, level, logger and message; null where a line is about none."""


class LogLines(logging.Handler):
    """Writes log records to stderr, one line each.

    Args:
        form: TEXT or JSON.
    """

    def __init__(self, form: str = TEXT) -> None:
        super().__init__()
        self._is_json = form == JSON

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            line = self._json(record) if self._is_json else self._text(record)
        except Exception:  # noqa: BLE001 - a handler raises nothing into the program
            self.handleError(record)
        else:
            output.say(line)

    def _text(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"

    def _json(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name, None) for name in FIELDS},
        }
        if record.exc_info:
            values["exception"] = logging.Formatter().formatException(record.exc_info)
        return output.json_line(values).decode("utf-8", "replace").rstrip("\n")


@contextlib.contextmanager
def logged(name: str, form: str) -> Iterator[None]:
    """Write what a logger logs to stderr while the block runs."""
    handler, logger = LogLines(form), logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
