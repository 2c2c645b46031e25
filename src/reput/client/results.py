"""The result of a send.

Source: `SendResult`, `SendStatus`, `MQClientAPIImpl.processSendResponse`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.client.outgoing import Outgoing
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.remoting import RemotingFrame


class SendStatus(Enum):
    """The status of a message that a broker has stored; the names are RocketMQ's."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, but not known to be on the disk yet."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored, but not known to be on the replica yet."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored, but there is no replica."""


STATUSES: Final = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""The codes of answers to sends whose messages are stored."""


class SendResult(NamedTuple):
    """The place of a message that a broker has stored.

    Attributes:
        status: The status.
        topic: The topic.
        broker_name: The broker.
        queue_id: The queue within the topic.
        queue_offset: The message's number in its queue; for one that waits for its time, in the queue where it waits.
        message_id: The offset message id, by which a broker finds the message.
        unique_key: The unique key, which the client has made if the message had none.
        transaction_id: The id of the transaction, for a half message; else empty.
        recall_handle: The handle by which a message that waits for its time can be recalled; else empty.
    """

    status: SendStatus
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    unique_key: str
    transaction_id: str = ""
    recall_handle: str = ""


def results_of(answer: RemotingFrame, outgoing: Outgoing, queue: QueueName) -> list[SendResult]:
    """Return the result of each message of a send, in order.

    Raises:
        ValueError: the answer has no such fields.
    """
    fields = answer.fields
    status, queue_id, first = STATUSES[ResponseCode(answer.code)], int(fields["queueId"]), int(fields["queueOffset"])
    ids = fields["msgId"].split(",") if outgoing.is_batch else [fields["msgId"]]
    if len(ids) != len(outgoing.keys):
        # Queues of batches have one record, and so one id, for all of its messages.
        ids = [ids[0]] * len(outgoing.keys)
    transaction_id, handle = fields.get("transactionId", ""), fields.get("recallHandle", "")
    place = (status, outgoing.topic, queue.broker_name, queue_id)
    return [
        SendResult(*place, first + number, one, key, transaction_id, handle)
        for number, (one, key) in enumerate(zip(ids, outgoing.keys, strict=True))
    ]
