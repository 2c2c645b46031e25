"""Messages that a client holds and whose leases the broker renews: those of push consumers.

A lease is renewed before it ends, for as long as its client lives, at most for some hours. The client keeps the handle
that it was given first; the broker knows the present one. Times are those of the monotonic clock: a clock that is set
neither ends a lease nor keeps it from being renewed.

Source: `DefaultReceiptHandleManager`, `ReceiveMessageActivity`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.broker.grpc.statuses import RefusedCallError
from reput.broker.wire.refusals import RefusedError
from reput.errors import ReputError
from reput.formats.wire.codes import ResponseCode
from reput.times import HOUR_MS

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.formats.wire.receipt_handle import ReceiptHandle

log = logging.getLogger("reput.broker")
LEASE_MS: Final = 60_000
"""The invisible time of messages whose leases are renewed."""
AHEAD_MS: Final = 20_000
"""A lease that ends within this time is renewed."""
LONGEST_MS: Final = 3 * HOUR_MS
"""The time after which a lease is not renewed any more."""
SOON_MS: Final = 1000
"""The invisible time of messages that their client does not hold any more."""
LEASE_IS_OVER: Final = frozenset(
    {ResponseCode.NO_MESSAGE, ResponseCode.INVALID_PARAMETER, ResponseCode.MESSAGE_ILLEGAL}
)
"""The codes of a refusal by which a lease is over, or was acked by another handle."""
_SECOND_MS: Final = 1000


@dataclass(slots=True)
class HeldMessage:
    """A message that a client holds. `handle`: the present one.

    `queue_topic`: the topic of its queue: its own, a retry topic of its group, or a light queue. `given_s`: when the
    client got it; `ends_s`: when its present lease ends.
    """

    group: str
    queue_topic: str
    handle: ReceiptHandle
    given_s: float
    ends_s: float


class HeldMessages:
    """The messages that a client holds, by group and the handle that it was given first."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], HeldMessage] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, group: str, queue_topic: str, given: str, handle: ReceiptHandle) -> None:
        """Renew a message's lease from now on. `given`: the text of the handle that the client gets."""
        now_s = monotonic()
        self._held[group, given] = HeldMessage(
            group, queue_topic, handle, now_s, now_s + handle.invisible_time / _SECOND_MS
        )

    @contextmanager
    def ending(self, group: str, given: str) -> Iterator[ReceiptHandle | None]:
        """Renew a message's lease no more; yields its present handle, None if it is not held.

        If the broker refuses the client's call only for now, the message is held as before: the client knows no other
        handle when it calls again.
        """
        held = self._held.pop((group, given), None)
        try:
            yield None if held is None else held.handle
        except BaseException as error:
            is_over = isinstance(error, RefusedCallError) and error.code == Code.INVALID_RECEIPT_HANDLE
            if held is not None and not is_over:
                self._held[group, given] = held
            raise

    def renew(self, broker: Broker) -> None:
        """Renew the leases that end soon; forget those that cannot be renewed."""
        now_s = monotonic()
        for key, held in list(self._held.items()):
            if now_s - held.given_s > LONGEST_MS / _SECOND_MS or (
                held.ends_s - now_s <= AHEAD_MS / _SECOND_MS and not self._change(broker, held, LEASE_MS)
            ):
                del self._held[key]

    def give_back(self, broker: Broker) -> None:
        """Let all messages come again soon: the client is gone."""
        for held in self._held.values():
            self._change(broker, held, SOON_MS)
        self._held.clear()

    def _change(self, broker: Broker, held: HeldMessage, invisible_ms: int) -> bool:
        try:
            held.handle, _ = broker.pops.change(held.group, held.queue_topic, held.handle, invisible_ms)
            held.ends_s = monotonic() + invisible_ms / _SECOND_MS
        except (RefusedError, ReputError) as error:
            if not isinstance(error, RefusedError) or error.code not in LEASE_IS_OVER:
                # Busy, or the disk is full: the lease goes on, and the next look renews it.
                return True
            # It was acked by another handle, or is over.
            log.debug("the lease of %r is not renewed: %s", held, error)
            return False
        return True
