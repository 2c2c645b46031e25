"""The server of clients: the order and the turns in which it serves what comes, and what it does each second."""

from __future__ import annotations

import pytest

from broker.remoting import Client, bodies, send_fields
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.wire.codes import RequestCode, ResponseCode

R, C = RequestCode, ResponseCode


@pytest.mark.parametrize("code", [R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE])
def test_a_batch_overtook_single_sends_of_the_same_read(client: Client, code: RequestCode) -> None:
    """Single sends and batches of one write lie in their queue in the order of their requests."""
    batch = encode_messages(InnerMessage(0, body, b"") for body in (b"2", b"3"))
    sends = [
        (R.SEND_MESSAGE_V2, b"0", 0, send_fields("orders")),
        (R.SEND_MESSAGE_V2, b"1", 0, send_fields("orders")),
        (code, batch, 0, send_fields("orders", m=code == R.SEND_MESSAGE_V2)),
        (R.SEND_MESSAGE_V2, b"4", 0, send_fields("orders")),
    ]
    answers = [client.answer(number) for number in client.send_all(sends)]
    assert [(one.code, one.fields["queueOffset"]) for one in answers] == [(C.SUCCESS, n) for n in ("0", "1", "2", "4")]
    assert bodies(client.pull("orders")) == [b"0", b"1", b"2", b"3", b"4"]
