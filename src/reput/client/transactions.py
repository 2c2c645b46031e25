"""The transactions of a producer: their ends, and its answers about those whose end the broker does not know.

Source: `DefaultMQProducerImpl.sendMessageInTransaction`, `endTransaction`, `checkTransactionState`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from reput.client.received import ReceivedMessage, messages_in
from reput.client.results import SendStatus
from reput.errors import ClientError, ReputError
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_message_id
from reput.formats.wire.codes import RequestCode

if TYPE_CHECKING:
    from reput.client.connection import ClientConnection
    from reput.client.core import ClientCore
    from reput.client.results import SendResult
    from reput.formats.wire.remoting import RemotingFrame

log = logging.getLogger("reput.client")
TransactionCheck = Callable[[ReceivedMessage], "bool | Awaitable[bool | None] | None"]
"""Says what has become of a transaction: True if it is to be committed, False if not, None if nobody knows."""
_UNKNOWN: Final = 0
_ENDS: Final = {True: TRANSACTION_COMMIT, False: TRANSACTION_ROLLBACK, None: _UNKNOWN}


class TransactionEnds:
    """The ends of a producer's transactions.

    Args:
        core: the client.
        group: the producer group.
        check: says what has become of a transaction; None if nobody asks for answers here.
    """

    def __init__(self, core: ClientCore, group: str, check: TransactionCheck | None) -> None:
        self._core = core
        self._group = group
        self._check = check
        core.served[RequestCode.CHECK_TRANSACTION_STATE] = self._serve_check

    async def end(self, result: SendResult, outcome: bool | None) -> None:
        """Send the end of a transaction, which no broker answers.

        Raises:
            ClientError: there is no connection to the broker; it asks `check` later.
        """
        found = decode_message_id(result.message_id)
        if found is None:
            raise ClientError(f"message id {result.message_id!r:.80} names no half message: the broker asks `check`")
        fields = {
            "topic": result.topic,
            "producerGroup": self._group,
            "tranStateTableOffset": str(result.queue_offset),
            "commitLogOffset": str(found[1]),
            "commitOrRollback": str(_ENDS[outcome]),
            "fromTransactionCheck": "false",
            "msgId": result.unique_key,
            "transactionId": result.transaction_id,
            "bname": result.broker_name,
        }
        address = self._core.routes.address_of(result.broker_name)
        await self._core.connections.notify(address, RequestCode.END_TRANSACTION, fields)

    def _serve_check(self, asked: RemotingFrame, connection: ClientConnection) -> Awaitable[None] | None:
        if self._check is None:
            log.warning("%s asks about a transaction, and the producer has no `check`", connection.address)
            return None
        return self._answer_check(asked, connection, self._check)

    async def _answer_check(self, asked: RemotingFrame, connection: ClientConnection, check: TransactionCheck) -> None:
        outcome: bool | None = None
        try:
            (half,) = messages_in(asked.body, "", connection.address)
        except (ReputError, ValueError):
            log.exception("%s asks about a transaction, and sends no half message", connection.address)
            return
        try:
            # `check` may ask a database, so it does not run in the loop's thread.
            given = await asyncio.get_running_loop().run_in_executor(None, check, half)
            outcome = await given if inspect.isawaitable(given) else given
        except Exception:  # the broker asks again about what the application does not answer
            log.exception("`check` does not answer about a transaction; the broker asks again")
        kept = ("topic", "tranStateTableOffset", "commitLogOffset", "transactionId")
        fields = {name: asked.fields[name] for name in kept if name in asked.fields}
        fields |= {
            "producerGroup": self._group,
            "commitOrRollback": str(_ENDS.get(outcome, _UNKNOWN)),
            "fromTransactionCheck": "true",
            "msgId": half.unique_key or asked.fields.get("msgId", ""),
            "bname": asked.fields.get("bname", ""),
        }
        try:
            await self._core.connections.notify(connection.address, RequestCode.END_TRANSACTION, fields)
        except ReputError as error:
            log.warning("the end of a transaction is not sent: %s", error)


class AsyncTransaction:
    """A transaction about one message, as an async context manager; see `AsyncProducer.transaction`.

    Attributes:
        result: The place of the half message; None before the block begins.
    """

    def __init__(self, send: Callable[[], Awaitable[SendResult]], transactions: TransactionEnds) -> None:
        self._send = send
        self._transactions = transactions
        self._is_ended = False
        self.result: SendResult | None = None

    async def __aenter__(self) -> Self:
        self.result = await self._send()
        if self.result.status is not SendStatus.SEND_OK:
            # The Java client, too, rolls back a half message that is not known to be safe.
            await self.end(False)
            words = f"transaction about topic {self.result.topic}: {self.result.status.value}: it is rolled back"
            raise ClientError(f"{words}. Try again", topic=self.result.topic)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_ended:
            await self.end(error is None)

    async def end(self, outcome: bool | None) -> None:
        """End the transaction now: True commits, False rolls back, None leaves the end to `check`.

        Raises:
            ClientError: There is no connection to the broker; it asks `check` later.
        """
        self._is_ended = True
        if self.result is not None:
            await self._transactions.end(self.result, outcome)
