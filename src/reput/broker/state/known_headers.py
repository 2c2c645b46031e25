"""Headers of sends that were checked already."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.broker.state.configuration import TopicConfigs

_MOST_KNOWN, _MOST_CHARACTERS = 4096, 1024
_Key = tuple[str | None, ...]


class SendHeader(NamedTuple):
    """The header of a send, of either version. `properties` as the sender gives them."""

    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str
    reconsume_times: int
    is_batch: bool


class KnownHeaders:
    """Headers of sends that were checked, by all their fields but the time and the properties.

    Senders send the same again and again: to check each anew takes 8 us.
    """

    def __init__(self, topics: TopicConfigs) -> None:
        self._topics = topics
        self._known: dict[_Key, tuple[SendHeader, object]] = {}

    def find(self, key: _Key) -> SendHeader | None:
        """Return the header, without time and properties; None if it must be checked."""
        known = self._known.get(key)
        if known is None:
            return None
        header, config = known
        # A topic that changes gets another configuration.
        return header if self._topics.find(header.topic) is config else None

    def add(self, key: _Key, header: SendHeader) -> None:
        """Keep a header that was checked."""
        config = self._topics.find(header.topic)
        if config is None or sum(len(text) for text in key if text is not None) > _MOST_CHARACTERS:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = header, config


def key_of(fields: Mapping[str, str]) -> _Key:
    """Return what makes a header of the second version, but for the time and the properties."""
    get = fields.get
    return get("a"), get("b"), get("c"), get("d"), get("e"), get("f"), get("h"), get("j"), get("l"), get("m")
