"""Messages that orderly consumers hold: their acks are answered when they are written, and they come again in time."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from broker.popping import batch_ack, batch_entry, got_in, handle_fields, pop, pop_fields
from reput.broker.handlers import acks
from reput.broker.services import order_blocks
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from broker.remoting import Client


def fill(client: Client) -> list[bytes]:
    """Send two messages to a queue; return their bodies."""
    sent = [b"0", b"1"]
    for body in sent:
        assert client.put("orders", body).code == ResponseCode.SUCCESS
    return sent


def test_a_wait_that_was_cut_at_the_longest_one_woke_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pop in order that waits gets the messages when their time is over, however long that is."""
    monkeypatch.setattr(order_blocks, "_LONGEST_WAIT_S", 0.2)
    sent = fill(client)
    assert len(pop(client, order=True, invisibleTime=1500)) == 2
    fields = pop_fields(pollTime=20_000, order=True)
    again = got_in(client.answer(client.send(RequestCode.POP_MESSAGE, **fields)))
    assert [one.body for one in again] == sent


def test_an_ack_in_order_that_is_not_written_was_answered_as_kept(client: Client, tmp_path: Path) -> None:
    """The file of what orderly consumers hold cannot be written: an ack fails, until it can."""
    fill(client)
    got = pop(client, order=True)
    file = tmp_path / "store" / "config" / "consumerOrderInfo.json"
    file.unlink(missing_ok=True)
    (file / "x").mkdir(parents=True)
    assert client.ask(RequestCode.ACK_MESSAGE, **handle_fields(got[0])).code == ResponseCode.SYSTEM_ERROR
    shutil.rmtree(file)
    assert client.ask(RequestCode.ACK_MESSAGE, **handle_fields(got[1])).code == ResponseCode.SUCCESS


def test_a_batch_of_very_many_acks_kept_all_others_waiting(client: Client) -> None:
    """More entries than any client sends are refused at once."""
    fill(client)
    one = batch_entry(pop(client))
    assert batch_ack(client, *[one] * (acks.MAX_ACKS + 1)) == ResponseCode.INVALID_PARAMETER
    assert batch_ack(client, *[one] * acks.MAX_ACKS) == ResponseCode.SUCCESS
