"""Consumers of gRPC in processes of their own, which take messages until they are killed, in Java or Python."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

from broker.clients import grpc_client, java5_client
from broker.clients.run import java_words

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "taken"


class Line(NamedTuple):
    """An act of a consumer at a time (ms): it `got` a message, or the broker took its ack (`acked`)."""

    at_ms: int
    what: str
    body: str
    attempt: int


class Taker:
    """A consumer in a process of its own; it is a context manager, at whose end the process is killed.

    Args:
        language: `java` or `python`.
        address: the gRPC port.
        home: a folder for the logs of Java's client.

    Attributes:
        lines: Its acts so far.
    """

    def __init__(self, language: str, address: str, home: Path) -> None:
        self.lines: list[Line] = []
        environment = None
        if language == "java":
            words = [*java_words(java5_client.PROGRAM, home), "reput.clients5.Taking", address]
        else:
            words = [sys.executable, "-P", str(grpc_client.PROGRAM), address, "taking"]
            environment = grpc_client.environment()
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The last one of a process that is killed may be half a line.
            if line.endswith(b"]\n"):
                self.lines.append(Line(*json.loads(line)))

    def kill(self) -> None:
        """End the process, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
