"""What a decoded log shows that rebuild and check both speak of: what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from reput.errors import UnsupportedStoreError
from reput.log.files import LogFiles
from reput.log.reader import place
from reput.pipeline.job import SplitResult


def refuse_oddities(log: LogFiles, results: Sequence[SplitResult]) -> None:
    """Refuse, by name, messages for queues of a kind that reput does not build yet.

    Raises:
        UnsupportedStoreError: there is one.
    """
    for result in results:
        found = result.oddities
        if found.inner_batches:
            raise UnsupportedStoreError(
                f"{place(log, found.first_inner_batch)}: an inner batch (sysFlag 0x80), so this store has batch "
                "ConsumeQueues, which reput can neither check nor build yet"
            )
        if found.multi_dispatches:
            raise UnsupportedStoreError(
                f"{place(log, found.first_multi_dispatch)}: a message for light message queues (LMQ, property "
                "INNER_MULTI_DISPATCH), which reput can neither check nor build yet"
            )
