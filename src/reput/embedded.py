"""`reput.MessageStore`: the store joined with the pipeline that builds its durable indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from reput.api import engine_for
from reput.store import message_store

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.pipeline.listener import ProgressListener
    from reput.store.indexer import CatchUp


class MessageStore(message_store.MessageStore):
    """An embedded store of many queues, in RocketMQ's own files.

        with reput.MessageStore.open("/data/store") as store:
            put = store.put_message(reput.Message("orders", b"body", tags="paid", keys="o-1"), queue_id=0)
            for message in store.get_message("orders", 0, put.queue_offset):
                print(message.body)

    What is put is readable at once. Durable indexes follow when `reput` is called, and at close. See
    `reput.store.message_store` for all calls.
    """

    def reput(
        self,
        spark: SparkSession | SparkContext | Literal[False] | None = None,
        *,
        master: str | None = None,
        listener: ProgressListener | None = None,
    ) -> CatchUp:
        """Bring the durable indexes up to what is confirmed now: one run of the Spark pipeline from the frontier.

        Args:
            spark: an existing session or context; None starts one (on `master`, `local[*]` by default); False runs the
                same tasks one after the other in this process, without Java.

        Raises:
            DamagedLogError: the log in between is damaged.
            AccessError: the store is open read-only.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        from reput.pipeline.catch_up import SparkIndexer

        with engine_for(spark, master) as engine:
            return self.catch_up_with(SparkIndexer(engine, listener))

    def close(self, *, reput: bool = True) -> None:
        """Catch up, in this process, make everything durable and let go of the store; a second call does nothing.

        Without `reput` what the indexes lack stays behind: `abort` then tells RocketMQ, and the next open, to recover.
        """
        try:
            if reput and self.is_writing and self.behind_bytes:
                self.reput(spark=False)
        finally:
            super().close()
