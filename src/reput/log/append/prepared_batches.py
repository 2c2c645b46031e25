"""The batches that a log's writer makes of Arrow columns, and of what clients send.

Most writers need neither. The modules are imported with the first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.log.encode.queue_directory import QueueDirectory

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from reput.log.encode.batch import CheckedBatch
    from reput.log.encode.client_batch import ClientBatches, SentBatch
    from reput.log.encode.column_batch import ColumnBatches
    from reput.log.encode.encode import RecordEncoder
    from reput.log.encode.topics import TopicTable


class PreparedBatches:
    """Makes batches for the queues of one log; its arguments are those of its writer."""

    def __init__(self, topics: TopicTable, records: RecordEncoder, max_body: int, *, enable_lmq: bool) -> None:
        self._topics, self._records, self._max_body = topics, records, max_body
        self._enable_lmq = enable_lmq
        self._columns: ColumnBatches | None = None
        self._sent: ClientBatches | None = None

    def of_columns(self, table: pa.Table | pa.RecordBatch) -> CheckedBatch:
        """Return the batch of Arrow columns; see `reput.log.encode.columns`.

        Raises:
            MessageRefusedError: They are no messages that can be stored.
        """
        if self._columns is None:
            from reput.log.encode.column_batch import ColumnBatches

            self._columns = ColumnBatches(self._directory(), enable_lmq=self._enable_lmq)
        return self._columns.batch(table)

    def of_sent(self, sent: SentBatch) -> CheckedBatch | None:
        """Return the batch that a client has sent; None if somebody must look at its messages.

        Raises:
            MessageRefusedError: It cannot be stored.
        """
        if self._sent is None:
            from reput.log.encode.client_batch import ClientBatches

            self._sent = ClientBatches(self._directory())
        return self._sent.batch(sent)

    def _directory(self) -> QueueDirectory:
        return QueueDirectory(self._topics, self._records, self._max_body)
