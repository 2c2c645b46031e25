"""Statuses of gRPC answers, and the codes of the protocol for the response codes of the broker.

RocketMQ's proxy has 50001 INTERNAL_SERVER_ERROR for most response codes; here they are typed.

Source: `ResponseBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NoReturn

from reput.broker.grpc.protocol.definition_pb2 import Code, Status
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.wire.answers import Answer

_MAX_WORDS = 1024
_CODES: Final = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.INVALID_PARAMETER: Code.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: Code.BAD_REQUEST,
}


class RefusedCallError(Exception):
    """A call cannot be served: the code and the text of its status. Only the broker sees it."""

    def __init__(self, code: Code, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


def refuse_call(code: Code, words: str) -> NoReturn:
    """Refuse the call that is being served."""
    raise RefusedCallError(code, words)


def status_of(code: Code, words: str | None = None) -> Status:
    """Return a status; without words it has the name of its code."""
    return Status(code=code, message=Code.Name(code) if words is None else words[:_MAX_WORDS])


def code_of(response_code: int) -> Code:
    """Return the code for a response code of the broker."""
    known = ResponseCode(response_code) if response_code in set(ResponseCode) else ResponseCode.SYSTEM_ERROR
    return _CODES.get(known, Code.INTERNAL_SERVER_ERROR)


def refuse_unless_ok(answer: Answer) -> None:
    """Refuse the call that is being served, if the broker has refused its request."""
    if answer.code != ResponseCode.SUCCESS:
        refuse_call(code_of(answer.code), answer.remark or "")


def status_of_all(codes: Iterable[Code]) -> Status:
    """Return the status of a call that has a status for each of several entries."""
    different = set(codes)
    return status_of(different.pop() if len(different) == 1 else Code.MULTIPLE_RESULTS)
