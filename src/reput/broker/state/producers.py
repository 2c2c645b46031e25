"""Producers that are online, by group: the broker asks one of a group about a transaction whose end it does not know.

Source: `ProducerManager`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.broker.state.of_connections import MembersOfConnections

if TYPE_CHECKING:
    from reput.broker.state.consumers import ClientInfo
    from reput.broker.wire.channel import Channel


class Producers:
    """The producers of each group. They live in memory: clients register again by their next heartbeat."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, ClientInfo]] = {}
        self._members = 0
        self._turn = 0
        self._of_connections = MembersOfConnections()

    def __len__(self) -> int:
        return self._members

    def register(self, client: ClientInfo, group: str) -> None:
        """Take a producer's heartbeat."""
        members = self._groups.setdefault(group, {})
        before = members.get(client.client_id)
        if before is None:
            self._members += 1
        else:
            self._of_connections.remove(before.connection, group, before.client_id)
        members[client.client_id] = client
        self._of_connections.add(client.connection, group, client.client_id)

    def unregister(self, client_id: str, group: str) -> None:
        """Remove a producer of a group."""
        members = self._groups.get(group, {})
        member = members.pop(client_id, None)
        if member is not None:
            self._members -= 1
            self._of_connections.remove(member.connection, group, member.client_id)
        if not members:
            self._groups.pop(group, None)

    def connection_lost(self, connection: Channel) -> None:
        """Remove all producers that used a connection."""
        for group, client_id in self._of_connections.of(connection):
            self.unregister(client_id, group)

    def find(self, group: str) -> dict[str, ClientInfo]:
        """Return the producers of a group by client id; nothing if nobody of it is online."""
        return self._groups.get(group, {})

    def all(self) -> list[ClientInfo]:
        """Return all producers, once for each of their groups."""
        return [one for members in self._groups.values() for one in members.values()]

    def next_of(self, group: str) -> Channel | None:
        """Return a producer of a group, another one each time; None if nobody of it is online."""
        connections = [one.connection for one in self.find(group).values() if one.connection.is_open]
        self._turn += 1
        return connections[self._turn % len(connections)] if connections else None
