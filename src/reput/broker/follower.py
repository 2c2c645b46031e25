"""The follower of a broker: `reput follow` in a process of its own, which ends with the broker.

Its stdin is a pipe from the broker, so that it ends when the broker is killed, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

from reput.errors import ReputError

log = logging.getLogger("reput.broker.follower")
_STOP_S = 20.0
_LAST_WORDS_S = 2.0
_LINE_MAX: Final = 1 << 16


class FollowerProcess:
    """A follower in a process of its own. A failure is logged; the store's indexes stay as far as they are.

    Args:
        store: the store's folder.
        options: further options of `reput follow`.

    Attributes:
        progress: What the follower has said last, as `reput follow --json` says it.
        failure: The exit code and the last line of a follower that has ended by itself; None before.
    """

    def __init__(self, store: Path, options: tuple[str, ...] = ()) -> None:
        self.progress: Mapping[str, Any] = MappingProxyType({})
        self.failure: str | None = None
        self._store = store
        self._is_stopping = False
        self._last_line = ""
        words = [sys.executable, "-m", "reput", "follow", "--json", "--until-stdin-ends", *options, "--", str(store)]
        # Ctrl-C at a terminal is the broker's, which ends the follower.
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise ReputError(
                f"{sys.executable}: the follower of {store} cannot be started: {error.strerror}"
            ) from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=arguments, name="reput-broker-follower", daemon=True)
            for arguments in ((self._process.stdout, self._take_progress), (self._process.stderr, self._take_words))
        ]
        for thread in self._threads:
            thread.start()
        self._watcher = threading.Thread(target=self._watch, name="reput-broker-follower-end", daemon=True)
        self._watcher.start()

    def _read(self, stream: IO[str], take: Any) -> None:
        with stream:
            while line := stream.readline(_LINE_MAX):
                take(line.strip())

    def _take_progress(self, line: str) -> None:
        with contextlib.suppress(ValueError):
            self.progress = MappingProxyType(json.loads(line))

    def _take_words(self, line: str) -> None:
        self._last_line = line or self._last_line
        log.info("follower: %s", line)

    def _watch(self) -> None:
        code = self._process.wait()
        # At the broker's end nobody waits for its last words.
        deadline_s = time.monotonic() + (0 if self._is_stopping else _LAST_WORDS_S)
        for thread in self._threads:
            # Spark's Java may keep the pipes for longer.
            thread.join(max(0.0, deadline_s - time.monotonic()))
        if not self._is_stopping:
            self.failure = f"exit code {code}: {self._last_line}"
            log.error(
                "the follower of %s has ended (%s). Without one the broker builds the indexes in idle time",
                self._store,
                self.failure,
            )

    def stop(self) -> None:
        """End the follower, and return when its indexes are durable; a second call does nothing."""
        self._is_stopping = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_STOP_S)
                break
            except subprocess.TimeoutExpired:
                log.warning("the follower of %s does not end within %.0f s, and is ended", self._store, _STOP_S)
                end()
        self._watcher.join(_STOP_S)
