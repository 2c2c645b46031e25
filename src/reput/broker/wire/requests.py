"""A request that is being served: its header's fields by type, and the way to answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.java.java_numbers import parse_whole
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.remoting import FrameError, read_json

if TYPE_CHECKING:
    from reput.broker.wire.channel import Channel
    from reput.formats.wire.remoting import RemotingFrame

MAX_JSON: Final = 1 << 20
"""The longest body of JSON, such as that of a heartbeat (bytes)."""


class Request:
    """A request of a connection. `answer` may be called later, once, and sends nothing for a one-way request.

    Attributes:
        received_s: The time when it came (s of the monotonic clock), if answers are counted.
        count_answer: Is called with the request and the code of its answer; None if nobody counts.
        is_held: True for a pull that has been held.
        delay: Takes the answer, if it is to wait for something, and gives it to `answer` later.
    """

    __slots__ = ("body", "connection", "count_answer", "delay", "fields", "frame", "is_held", "received_s")

    def __init__(
        self,
        connection: Channel,
        frame: RemotingFrame,
        received_s: float = 0.0,
        count_answer: Callable[[Request, int], None] | None = None,
    ) -> None:
        self.connection = connection
        self.frame = frame
        self.fields = frame.fields
        self.body = frame.body
        self.received_s = received_s
        self.count_answer = count_answer
        self.is_held = False
        self.delay: Callable[[Request, Answer], None] | None = None

    def answer(self, answer: Answer) -> None:
        """Send the answer; in place of one that no frame holds, a refusal that says so."""
        if self.delay is not None:
            delay, self.delay = self.delay, None
            delay(self, answer)
            return
        if not self.frame.is_one_way:
            try:
                self.connection.answer(self.frame, answer)
            except FrameError as error:
                answer = Answer(ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {error}")
                self.connection.answer(self.frame, answer)
        if self.count_answer is not None:
            self.count_answer(self, answer.code)

    @property
    def size(self) -> int:
        """The bytes of its body, and the characters of its fields."""
        return len(self.body) + sum(map(len, self.fields)) + sum(map(len, self.fields.values()))

    def text(self, name: str) -> str:
        """Return a field that must be there."""
        value = self.fields.get(name)
        if value is None:
            refuse(ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is null")
        return value

    def int32(self, name: str, default: int | None = None) -> int:
        """Return a field of 32 bits."""
        return self._number(name, 32, default)

    def int64(self, name: str, default: int | None = None) -> int:
        """Return a field of 64 bits."""
        return self._number(name, 64, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a field that is true or false; as in Java any text but "true" is false."""
        value = self.fields.get(name)
        return default if value is None else value.lower() == "true"

    def _number(self, name: str, bits: int, default: int | None) -> int:
        value = self.text(name) if default is None else self.fields.get(name, "")
        if default is not None and not value:
            return default
        number = parse_whole(value, bits)
        if number is not None:
            return number
        return refuse(ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is {value!r:.40}: give a whole number")

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object."""
        if len(self.body) > MAX_JSON:
            refuse(ResponseCode.SYSTEM_ERROR, f"the body has {len(self.body)} bytes of JSON: the most is {MAX_JSON}")
        try:
            value = read_json(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            refuse(ResponseCode.SYSTEM_ERROR, f"the body is not a JSON object: {self.body[:40]!r}")
        return value
