"""`reput.MessageStore`: the store, joined with the pipeline that builds its durable indexes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from reput.api import config_from
from reput.api import follow as reput_follow
from reput.arguments import named_arguments
from reput.config import StoreConfig
from reput.errors import ConfigError, StoreLockedError, TailFullError
from reput.pipeline.spark.chosen import engine_for, refuse_no_spark
from reput.store import message_store
from reput.store.read.queue_answers import PullLimits
from reput.store.read.topic_messages import refuse_unknown

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.pipeline.follow.query import FollowHandle
    from reput.pipeline.spark.listener import ProgressListener
    from reput.store.owner.indexer import CatchUp


class MessageStore(message_store.LocalStore):
    """An embedded store of many queues, in RocketMQ's own files. Safe for threads.

        with reput.MessageStore.open("/data/store", create=True) as store:
            put = store.put_message(reput.Message("orders", b"body", tags="paid", keys="o-1"), queue_id=0)
            for message in store.get_message("orders", 0, put.queue_offset):
                print(message.body)

    A message is readable when its put returns.
    Durable indexes follow when `reput` is called, and at close.
    One process at a time writes; others open the store with `read_only=True`.
    `notes` lists the findings and repairs of the open.
    `damage` lists the queues, topics and committed offsets that a read-only store could not read, each with what helps.
    """

    follower: FollowHandle | None = None
    """The handle of the follower that `open(follow=...)` started."""

    def __repr__(self) -> str:
        name = f"<reput.MessageStore {str(self.layout.root)!r}"
        if self._closed:
            return f"{name}, closed>"
        mode = "open to write" if self.is_writing else "read-only"
        topics, view = len(self.view.topics()), self.view
        return f"{name}, {mode}, topics {topics}, log {view.log.min_offset} to {view.confirmed()}>"

    def reput(
        self,
        spark: SparkSession | SparkContext | Literal[False] | None = None,
        *,
        master: str | None = None,
        listener: ProgressListener | None = None,
    ) -> CatchUp:
        """Bring the durable indexes up to the confirmed offset, by one run of the pipeline from the frontier.

        Args:
            spark: A session or context to use.
                None uses the Spark context that this process has. Without one the tasks run in threads, and Spark is
                started on this machine for the rest of a long job.
                False runs the same tasks one after the other in this process, without Java.
            master: The Spark master URL of a session that is started here.
            listener: An object that gets the progress.

        Returns:
            The offset up to which the indexes are complete, and the findings on the way.

        Raises:
            DamagedLogError: The log after the frontier is damaged.
            AccessError: The store is open read-only.
            ReputError: Another error of `reput.errors`; the frontier has not moved.
        """
        from reput.pipeline.follow.catch_up import SparkIndexer

        # Before Spark takes seconds to start.
        self.refuse_catch_up()
        return self.catch_up_with(SparkIndexer(engine_for(spark, master, listener), listener))

    def reput_unless_followed(
        self,
        spark: SparkSession | SparkContext | Literal[False] | None = None,
        *,
        master: str | None = None,
        listener: ProgressListener | None = None,
    ) -> CatchUp | None:
        """Call `reput`, or leave the work to the process that follows the store.

        Args:
            spark: As for `reput`.
            master: As for `reput`.
            listener: As for `reput`.

        Returns:
            The result of `reput`; None if a follower has the indexes.

        Raises:
            ReputError: As for `reput`.
        """
        try:
            return None if self.is_followed else self.reput(spark, master=master, listener=listener)
        except StoreLockedError:
            # A follower has come since the look. A short one may have gone again.
            return None if self.is_followed else self.reput(spark, master=master, listener=listener)

    def delete_topic(self, topic: str) -> list[int]:
        """Delete all queues of a topic, durably.

        The call removes their entries and numbers from every kind of queue. New messages begin at 0.
        The log keeps the messages, and they can still be found by key.
        The store remembers the deletion: `check` does not miss the queues, and a rebuild leaves them out unless its
        `topics` name the topic.
        If the process is killed meanwhile, the next owner of the store completes the deletion.
        Puts to the store wait while its files are removed.
        Committed offsets are kept; `clean_offsets` removes them.

        Args:
            topic: The topic.

        Returns:
            The ids of the deleted queues.

        Raises:
            ConfigError: The topic is unknown; the text names similar topics.
            AccessError: The store is open read-only.
            StoreLockedError: A follower holds the queues; end it first.
            ReputError: Messages are put to the topic meanwhile; nothing is deleted.
        """
        gone = self._delete_queues(topic)
        if not gone:
            # A topic that the broker's configuration has may have no queue yet.
            refuse_unknown(self.view, topic)
        return gone

    def delete_queue(self, topic: str, queue_id: int) -> bool:
        """Delete one queue as `delete_topic` does; return True if it existed."""
        return bool(self._delete_queues(topic, queue_id))

    def delete_queues_of(self, topic: str, queue_id: int | None = None) -> list[int]:
        """Delete the queues of a topic, or one of them: the old name of `delete_topic` and `delete_queue`.

        It gives a DeprecationWarning, and goes with the next version.

        Returns:
            The ids of the deleted queues.
        """
        words = (
            "MessageStore.delete_queues_of(): call delete_topic() or delete_queue(); the next version takes only these"
        )
        warnings.warn(words, DeprecationWarning, stacklevel=2)
        return self._delete_queues(topic, queue_id)

    def _delete_queues(self, topic: str, queue_id: int | None = None) -> list[int]:
        from reput.pipeline.follow.catch_up import SparkIndexer
        from reput.pipeline.spark.engine import LoopEngine

        return self.delete_queues_with(SparkIndexer(LoopEngine()), topic, queue_id)

    @classmethod
    @named_arguments()
    def open(
        cls,
        path: Path | str,
        config: StoreConfig | str | Path | None = None,
        *,
        read_only: bool = False,
        create: bool = False,
        limits: PullLimits | None = None,
        delete_expired: bool | None = None,
        force_setting: bool = False,
        follow: bool = False,
        spark: SparkSession | SparkContext | Literal[False] | None = None,
        master: str | None = None,
    ) -> Self:
        """Open a store, or make a new one.

        A store that is open read-only changes nothing and locks nothing. Another process may write meanwhile, and its
        confirmed messages become visible.

        Args:
            path: The store's root folder (storePathRootDir).
            config: A StoreConfig, or the path of a broker.conf. Without it the store's files decide, then RocketMQ's
                defaults. A broker.conf, or settings that say when log files are deleted, turn deletion on.
            read_only: Only read.
            create: Make a new store if the folder does not exist or is empty.
            limits: Bounds on what one pull returns.
            delete_expired: Delete expired log files while the store is open, or keep them; None leaves that to the
                configuration. `notes` and the logger `reput.store` name each deleted file.
            force_setting: Continue with a setting of `config` that contradicts the store's files. Without it that is
                an error.
            follow: Start a follower, which builds the durable indexes. `follower` is its handle. If more messages wait
                for their indexes than the tail may hold, the follower catches up first.
            spark: The Spark of the follower: a session or context, None to start one (on `master`), or False to follow
                in a thread without Spark.
            master: The Spark master URL of a session that is started here; `local[*]` by default.

        Raises:
            NotAStoreError: There is no store, and `create` is not set; or the folder holds something else.
            StoreLockedError: A live broker or another reput process holds the store. (A follower that catches up
                releases it.)
            DamagedLogError: The log is damaged below an offset that was known to be durable; nothing was changed.
            TailFullError: More messages wait for their indexes than `tail_max_entries` allows.
            ConfigError: A setting contradicts the store's files, or arguments contradict each other.
            ReputError: Another error of `reput.errors`.
        """
        config = config_from(config, force_setting)
        follow, spark = _renamed_follow(follow, spark)
        refuse_no_spark(spark)
        flags = {"read_only": read_only, "create": create, "delete_expired": delete_expired, "follow": follow}
        _refuse_wrong_arguments(limits, flags)
        if follow and read_only:
            raise ConfigError(f"{path}: opened read-only, and a follower writes. Leave one of them out")
        try:
            store = super().open(
                path, config, read_only=read_only, create=create, limits=limits, delete_expired=delete_expired
            )
        except TailFullError:
            if not follow:
                raise
            with reput_follow(path, spark=spark, master=master, config=config, until_caught_up=True) as catching_up:
                catching_up.wait()
            store = super().open(path, config, create=create, limits=limits, delete_expired=delete_expired)
        if follow:
            try:
                store.follower = reput_follow(path, spark=spark, master=master, config=config)
            except BaseException:
                super(MessageStore, store).close()
                raise
        return store

    def close(self, *, reput: bool = True) -> None:
        """Catch up in this process, make everything durable and release the store; a second call does nothing.

        The call waits for a `reput` of another thread.

        Args:
            reput: False does not catch up the indexes. The file `abort` then stays, so that RocketMQ, and the next
                open, recover.
        """
        try:
            if self.follower is not None:
                follower, self.follower = self.follower, None
                follower.stop()
            if reput and self.is_writing:
                self._writer().await_catch_ups()
                # Messages in a write buffer, or waiting for a sync, have no index entries either.
                self.flush()
                if self.needs_catch_up:
                    self.reput_unless_followed(spark=False)
        finally:
            super().close()


def _refuse_wrong_arguments(limits: Any, flags: Mapping[str, Any]) -> None:
    if limits is not None and not isinstance(limits, PullLimits):
        raise ConfigError(f"limits={limits!r:.80}: give a reput.PullLimits")
    for name, flag in flags.items():
        if flag not in (None, False, True):
            raise ConfigError(f"{name}={flag!r:.80}: give True or False")


def _renamed_follow(follow: Any, spark: Any) -> tuple[Any, Any]:
    """Split an old `follow`, which also named Spark, into both arguments: return `follow` and `spark`."""
    if isinstance(follow, bool) or not (
        follow == "loop" or hasattr(follow, "createDataFrame") or hasattr(follow, "parallelize")
    ):
        return follow, spark
    instead = "spark=False" if follow == "loop" else "spark=..."
    warnings.warn(
        f"MessageStore.open(): give follow=True, {instead}; the next version takes only True and False for follow",
        DeprecationWarning,
        stacklevel=4,
    )
    return True, False if follow == "loop" else follow
