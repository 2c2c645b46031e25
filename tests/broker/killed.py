"""A broker in a process of its own that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.remoting import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def killed_broker(store: Path, *options: str, queues: int = 1) -> Iterator[Client]:
    """Serve a store with topic orders, and kill the process when the block ends; yield a client."""
    words = [sys.executable, "-m", "reput", "serve", str(store), "--port", "0", "--topic", f"orders:{queues}", "--json"]
    with subprocess.Popen([*words, *options], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            with Client(json.loads(process.stdout.readline())["address"]) as client:
                yield client
        finally:
            process.kill()
