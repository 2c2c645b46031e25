"""The way in which groups take the messages of topics: they pull, or they pop (`MessageRequestModeManager`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reput.broker.state.kept import kept_table
from reput.broker.wire.refusals import refuse_as_busy
from reput.files.backed_up import BackedUpFile, BackedUpKind
from reput.formats.config import request_modes
from reput.formats.config.request_modes import GroupMode, ModeTable, RequestMode, decode_modes, encode_modes
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.state.config_writes import ConfigWrites

MAX_MODES: Final = 100_000
"""The most pairs of a topic and a group whose mode is set. RocketMQ has no bound."""
_PULL: Final = GroupMode(RequestMode.PULL, 0)
_KIND: BackedUpKind[ModeTable] = BackedUpKind(
    decode_modes,
    {},
    request_modes.SIZE_LIMIT,
    "The modes of groups were read from {}, which is older",
    "groups whose clients leave their assignment to the broker pull",
)


class RequestModes:
    """The modes that administrators have set; any other group pulls. A change is durable when its request is answered.

    Args:
        folder: the store's `config`.
        writes: makes changes durable.
    """

    def __init__(self, folder: Path, writes: ConfigWrites) -> None:
        self._file = BackedUpFile(folder / request_modes.FILE_NAME, _KIND)
        # A change makes a new table: another thread writes the one that it has found.
        self._table: ModeTable = kept_table(self._file) or {}
        self._written = self._table
        self._writes = writes
        writes.add(self)

    @property
    def table(self) -> Mapping[tuple[str, str], GroupMode]:
        """The modes, by topic and group."""
        return self._table

    def get(self, topic: str, group: str) -> GroupMode:
        """Return the mode of a group in a topic. Retry topics are always pulled."""
        return _PULL if topic.startswith(RETRY_PREFIX) else self._table.get((topic, group), _PULL)

    def set(self, topic: str, group: str, mode: GroupMode) -> None:
        """Set the mode of a group in a topic.

        Raises:
            RefusedError: too many are set, or too many requests wait for what they change.
        """
        self._writes.refuse_more()
        if (topic, group) not in self._table and len(self._table) >= MAX_MODES:
            refuse_as_busy()
        self._table = {**self._table, (topic, group): mode}
        self._writes.changed(self, f"{topic}@{group}", must=True)

    def persist(self) -> None:
        """Write the modes, if they have changed; any thread may call it, one at a time.

        Raises:
            ReputError: the file cannot be written. It has what it had.
        """
        table = self._table
        if table is not self._written:
            self._file.replace(encode_modes(table), now_ms())
            self._written = table
