"""The members that each connection has brought: a connection that is lost takes these, without a look at all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reput.broker.wire.channel import Channel


class Member(NamedTuple):
    """The name of a member: its group and the id of its client."""

    group: str
    client_id: str


class MembersOfConnections:
    """The names of members by connection."""

    def __init__(self) -> None:
        self._members: dict[Channel, set[Member]] = {}

    def __len__(self) -> int:
        """Return the number of connections that have members."""
        return len(self._members)

    def add(self, connection: Channel, group: str, client_id: str) -> None:
        """Note that a connection has a member of a group."""
        self._members.setdefault(connection, set()).add(Member(group, client_id))

    def remove(self, connection: Channel, group: str, client_id: str) -> None:
        """Forget that a connection has a member of a group."""
        members = self._members[connection]
        members.discard(Member(group, client_id))
        if not members:
            del self._members[connection]

    def of(self, connection: Channel) -> list[Member]:
        """Return the members of a connection."""
        return list(self._members.get(connection, ()))
