"""Serves one request alone. `BrokerServer` serves those of a connection, and stores sends of one read together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from reput.broker.handlers.sends import SEND_CODES, Send, serve_send, store_batch, store_sends
from reput.broker.handlers.table import HANDLERS

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request


def serve_alone(broker: Broker, request: Request) -> None:
    """Serve a request whose code the broker knows; it is answered at once, or later."""
    broker.guarded(request, partial(_serve, broker, request))


def _serve(broker: Broker, request: Request) -> Answer | None:
    if request.frame.code not in SEND_CODES:
        return HANDLERS[request.frame.code](broker, request)
    send = serve_send(broker, request)
    if isinstance(send, Send):
        store_sends(broker, [send])
        return None
    return store_batch(broker, send)
