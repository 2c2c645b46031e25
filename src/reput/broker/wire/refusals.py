"""Refusals of requests: the code and the text of the answer, as an exception that handlers raise."""

from __future__ import annotations

from typing import NoReturn

from reput.formats.wire.codes import ResponseCode


class RefusedError(Exception):
    """A request cannot be served: the code and the text of its answer. Only the broker sees it."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


def refuse(code: ResponseCode, remark: str) -> NoReturn:
    """Refuse the request that is being served."""
    raise RefusedError(code, remark)


def refuse_as_busy() -> NoReturn:
    """Refuse the request that is being served: too many wait. The words are those of `BrokerFastFailure`."""
    refuse(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
