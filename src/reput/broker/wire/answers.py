"""Answers to requests, and those to requests that meet an error of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from reput.errors import ConfigError, NoSpaceError, ReputError, TailFullError
from reput.formats.wire.codes import ResponseCode


class Answer(NamedTuple):
    """An answer. `pieces`: its body, in pieces that are sent one after the other."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Mapping[str, str] = MappingProxyType({})
    pieces: Sequence[bytes | memoryview] = ()


def unavailable(reason: str) -> str:
    """Return why no message is taken, in RocketMQ's words (`SendMessageProcessor.handlePutMessageResult`)."""
    return f"service not available now. It may be caused by one of the following reasons: {reason}"


def answer_of_error(error: ReputError) -> Answer:
    """Return the answer to a request that met an error of the store."""
    if isinstance(error, TailFullError):
        return Answer(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, start flow control for a while: {error}")
    if isinstance(error, NoSpaceError):
        return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, unavailable(f"the broker's disk is full: {error}"))
    code = ResponseCode.INVALID_PARAMETER if isinstance(error, ConfigError) else ResponseCode.SYSTEM_ERROR
    return Answer(code, str(error))
