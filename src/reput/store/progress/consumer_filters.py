"""The registry of consumers' SQL92 filters, as a broker keeps it in config/consumerFilter.json.

A filter is born when its group registers it, with a new expression anew; a group that goes leaves it dead, and dead it
stays in the file for a day. Bitmaps are computed for dead filters, too: their groups may come back. Of those that are
read from the file all are dead until their groups register again.

Source: `ConsumerFilterManager` (RocketMQ 5.5.1: an expression that is none leaves the old filter alone).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from reput.dispatch.bloom import BloomFilter, filter_key
from reput.dispatch.sql import compile as compile_sql
from reput.errors import ConfigError, DamagedStoreError
from reput.files import fs
from reput.formats import consumer_filter
from reput.formats.consumer_filter import SQL92, FilterData
from reput.store.progress.progress import wall_clock_ms

KEPT_DEAD_MS = 24 * 3600 * 1000
_DEAD_AT_LOAD_MS = 30 * 1000
_BORN_AHEAD_MS = 1000


class ConsumerFilters:
    """The filters of all groups. Safe for threads. `notes` says what was found wrong when it was loaded.

    Args:
        config_folder: the store's `config`.
        bloom: what gives filters their bits.
    """

    def __init__(self, config_folder: Path, bloom: BloomFilter, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.bloom = bloom
        self.notes: list[str] = []
        self._folder = config_folder
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._filters: dict[tuple[str, str], FilterData] = {}
        self._unheard: set[tuple[str, str]] = set()

    @classmethod
    def load(cls, config_folder: Path, bloom: BloomFilter, *, clock_ms: Callable[[], int] = wall_clock_ms) -> Self:
        """The registry that consumerFilter.json holds, or its .bak where it is missing or damaged; changes no file.

        As in RocketMQ all of it is left out where it was made for another Bloom filter: its bitmaps mean nothing then.

        Raises:
            DamagedStoreError: the file is damaged, and its .bak is missing or damaged, too.
        """
        registry = cls(config_folder, bloom, clock_ms=clock_ms)
        for one in registry._read():
            if (one.bits, len(one.bit_positions)) != (bloom.bits, bloom.hashes):
                registry.notes.append(
                    f"{config_folder / consumer_filter.FILE_NAME}: made for another Bloom filter ({one.bits} bits, "
                    f"here {bloom.bits}), so left out. maxErrorRateOfBloomFilter and expectConsumerNumUseFilter decide"
                )
                registry._filters = {}
                break
            dead_ms = one.dead_ms or max(one.born_ms, clock_ms() - _DEAD_AT_LOAD_MS)
            registry._filters[one.topic, one.group] = one._replace(dead_ms=dead_ms)
        return registry

    def register(
        self, topic: str, group: str, expression: str, client_version: int, expression_type: str = SQL92
    ) -> bool:
        """Take a group's filter on a topic; whether it counts now.

        A client version below the one that is known is an old client, and changes nothing. A filter of tags, an empty
        one or one that is none is not taken, and neither is a text that RocketMQ alone takes for a filter.
        """
        if expression_type != SQL92 or not expression:
            return False
        with self._lock:
            old = self._filters.get((topic, group))
            if old is not None and client_version <= old.client_version:
                if client_version == old.client_version and old.is_dead:
                    self._filters[topic, group] = old._replace(dead_ms=0)
                    return True
                return False
            positions = self.bloom.positions(filter_key(group, topic))
            if old is not None and (old.expression, old.bits, old.bit_positions) == (
                expression,
                self.bloom.bits,
                positions,
            ):
                self._filters[topic, group] = old._replace(client_version=client_version, dead_ms=0)
                return True
            try:
                compile_sql(expression)
            except ConfigError:
                return False
            self._unheard.add((topic, group))
            self._filters[topic, group] = FilterData(
                topic, group, expression, SQL92, self._clock_ms(), 0, self.bloom.bits, positions, client_version
            )
            return True

    def unregister(self, group: str) -> None:
        """A group has gone: its filters are dead from now on."""
        with self._lock:
            for key, one in self._filters.items():
                if one.group == group and not one.is_dead:
                    self._filters[key] = one._replace(dead_ms=self._clock_ms())

    def get(self, topic: str, group: str) -> FilterData | None:
        """A group's filter on a topic, dead or alive."""
        with self._lock:
            return self._filters.get((topic, group))

    def all(self) -> list[FilterData]:
        """All filters, dead and alive, by topic and group."""
        with self._lock:
            return [self._filters[key] for key in sorted(self._filters)]

    def persist(self) -> None:
        """Make the registry durable; filters that have been dead for a day go. The old file becomes its .bak.

        Bitmaps are computed by other processes, from the file. So a new filter is born only when they can read of it: a
        message stored before may have a bitmap without its bits.
        """
        with self._lock:
            if not fs.exists(self._folder):
                fs.make_dirs(self._folder, fs.owner_of(self._folder.parent))
            owner, path = fs.owner_of(self._folder), self._folder / consumer_filter.FILE_NAME
            old = fs.read_bytes(path, consumer_filter.SIZE_LIMIT)
            if old:
                fs.write_whole(self._folder / consumer_filter.BACKUP_NAME, old, owner)
            while True:
                born_ms = self._clock_ms() + _BORN_AHEAD_MS
                self._prepare(born_ms)
                data = consumer_filter.encode(self._filters[key] for key in sorted(self._filters))
                fs.write_whole(path, data, owner)
                if not self._unheard or self._clock_ms() < born_ms:
                    break
            self._unheard = set()

    def _prepare(self, born_ms: int) -> None:
        """Drop who has been dead for long, and let the filters that the file does not hold yet be born then."""
        now_ms = self._clock_ms()
        self._filters = {
            key: one._replace(born_ms=born_ms) if key in self._unheard else one
            for key, one in self._filters.items()
            if not (one.is_dead and now_ms - one.dead_ms >= KEPT_DEAD_MS)
        }

    def _read(self) -> list[FilterData]:
        path, backup = self._folder / consumer_filter.FILE_NAME, self._folder / consumer_filter.BACKUP_NAME
        try:
            return _decoded(path)
        except FileNotFoundError:
            wrong = f"{path}: is missing or empty"
        except DamagedStoreError as error:
            wrong = str(error)
        try:
            found = _decoded(backup)
        except FileNotFoundError:
            if not fs.read_bytes(path, 1):
                return []
            raise DamagedStoreError(
                f"{wrong}, and there is no {backup.name}. Put a good copy in its place, or move it away: all groups "
                "register again, and bitmaps are not believed until then"
            ) from None
        self.notes.append(f"{wrong}. Consumers' filters were read from {backup}, which is older")
        return found


def _decoded(path: Path) -> list[FilterData]:
    data = fs.read_bytes(path, consumer_filter.SIZE_LIMIT + 1)
    if not data:
        raise FileNotFoundError(path)
    return consumer_filter.decode(data, str(path))
