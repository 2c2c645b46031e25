"""Kill rounds: `reput serve` is killed at random instants while RocketMQ's client sends to it and consumes in order.

python -m broker.clients.rounds --rounds 100 --seed 7

After each kill the broker starts again on the same store and port, and the client goes on. In the end:

- each message that was acknowledged is at its place, once;
- each queue was delivered without a gap: a message again after a kill, but none before the one before it;
- offsets that were on disk before a kill were not lower after it;
- `check` is clean.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import reput
from broker.clients.brokers import Serving, make_topics
from broker.remoting import Client
from peer import peer
from reput.broker.wire.codes import RequestCode
from reput.formats.java.fastjson import parse_fastjson
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = 4
PREFIX = "rounds-"
TOPIC = f"{PREFIX}lasting"
GROUP = f"{PREFIX}lasting-group"
LIMIT_S = 60.0
SETTINGS = "flushConsumerOffsetInterval=200\n"


class Heard:
    """The client's reports so far."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], str] = {}
        self.delivered: list[dict[int, str]] = [{} for _ in range(QUEUES)]
        self.wrong: list[str] = []
        self.is_done = False

    def listen(self, process: subprocess.Popen[str]) -> None:
        """Take the client's lines, until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            self.hear(line.split())

    def hear(self, words: list[str]) -> None:
        """Take one line."""
        if words[:1] == ["done"]:
            self.is_done = True
        elif len(words) == 4 and words[0] == "sent":
            place = int(words[1]), int(words[2])
            if place in self.sent:
                self.wrong.append(f"{words[3]} was acknowledged for {place}, which {self.sent[place]} has")
            self.sent[place] = words[3]
        elif len(words) == 4 and words[0] == "got":
            queue_id, offset = int(words[1]), int(words[2])
            before = self.delivered[queue_id]
            if offset > len(before):
                self.wrong.append(f"queue {queue_id}: {offset} was delivered after {len(before) - 1}")
            if before.setdefault(offset, words[3]) != words[3]:
                self.wrong.append(f"queue {queue_id}: {offset} was {before[offset]}, and is {words[3]}")


class ServeRounds:
    """One store, one port and one client, while brokers come and are killed.

    Args:
        folder: a folder for all.
        seed: decides the instants.
        flush: the kind of flush.
    """

    def __init__(self, folder: Path, seed: int, flush: str = "ASYNC_FLUSH") -> None:
        self.store = folder / "store"
        self._folder = folder
        self._chance = random.Random(seed)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        address = f"127.0.0.1:{self._port}"
        self._serving = Serving("reput", address, address, self.store)
        self._settings = folder / "broker.conf"
        self._settings.write_text(f"{SETTINGS}flushDiskType={flush}\n")
        self.heard = Heard()

    def __enter__(self) -> Self:
        self._start_broker()
        make_topics(self._serving, {TOPIC: QUEUES})
        program = peer.PROGRAMS["client"]
        words = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={self._folder}"]
        words += [f"-Drocketmq.client.logRoot={self._folder}", "-cp", program.classpath, "reput.clients.Lasting"]
        words += [self._serving.namesrv, PREFIX]
        pipe = subprocess.PIPE
        self._client = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self._listener = threading.Thread(target=self.heard.listen, args=[self._client], daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._client, self._broker):
            process.kill()
            process.wait()
        self._listener.join()
        for pipe in (self._client.stdin, self._client.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _start_broker(self) -> None:
        words = [sys.executable, "-m", "reput", "serve", str(self.store), "--port", str(self._port)]
        words += ["--config", str(self._settings)]
        with (self._folder / "broker.log").open("ab") as log:
            self._broker = subprocess.Popen(words, stdout=log, stderr=log)
        self._wait(self._answers, "the broker does not start")

    def _answers(self) -> bool:
        if self._broker.poll() is not None:
            raise AssertionError(f"the broker has ended: {(self._folder / 'broker.log').read_text()}")
        with contextlib.suppress(OSError), Client(self._serving.broker) as client:
            return client.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
        return False

    def _wait(self, is_so: Callable[[], bool], words: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < deadline, words
            time.sleep(0.02)

    def round(self) -> str:
        """Let messages be delivered, kill the broker at a random instant, and start it again; say what was done."""
        sent, got = len(self.heard.sent), self._delivered()
        self._wait(lambda: len(self.heard.sent) > sent and self._delivered() > got, "nothing is sent or delivered")
        time.sleep(self._chance.random())
        before = self._offsets_on_disk()
        self._broker.kill()
        self._broker.wait()
        self._start_broker()
        with Client(self._serving.broker) as client:
            for queue_id, offset in before.items():
                asked = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
                after = int(client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **asked).fields.get("offset", -1))
                if after < offset:
                    self.heard.wrong.append(f"queue {queue_id}: the committed offset was {offset}, and is {after}")
        self.check_heard()
        return f"killed with {len(self.heard.sent)} acknowledged, {self._delivered()} delivered"

    def _delivered(self) -> int:
        return sum(map(len, self.heard.delivered))

    def _offsets_on_disk(self) -> dict[int, int]:
        path = self.store / "config" / "consumerOffset.json"
        table = parse_fastjson(path.read_bytes())["offsetTable"] if path.exists() else {}
        return {int(queue_id): offset for queue_id, offset in table.get(f"{TOPIC}@{GROUP}", {}).items()}

    def check_heard(self) -> None:
        """Fail with what was wrong."""
        assert not self.heard.wrong, "\n".join(self.heard.wrong[:20])

    def finish(self) -> str:
        """End the client when it has got all, and look at the store; say how much was sent."""
        assert self._client.stdin is not None
        self._client.stdin.write("enough\n")
        self._client.stdin.flush()
        self._wait(lambda: self.heard.is_done, "the client does not end")
        with Client(self._serving.broker) as client:
            fields = [{"topic": TOPIC, "queueId": queue_id} for queue_id in range(QUEUES)]
            ends = [int(client.ask(RequestCode.GET_MAX_OFFSET, **one).fields["offset"]) for one in fields]
        self._wait(lambda: self._delivered() >= sum(ends), f"of {ends} only {self._delivered()} are delivered")
        self._broker.terminate()
        self._broker.wait(LIMIT_S)
        self.check_heard()
        with reput.MessageStore.open(self.store, read_only=True) as store:
            for (queue_id, offset), body in self.heard.sent.items():
                (message,) = store.get_message(TOPIC, queue_id, offset, 1)
                assert message.body.decode() == body, (queue_id, offset)
        assert_sound(self.store)
        return f"{len(self.heard.sent)} messages were acknowledged, {sum(ends)} stored and delivered"


def main() -> None:
    """Run rounds, and say what each did."""
    parser = argparse.ArgumentParser(description="Kill `reput serve` while RocketMQ's client works with it.")
    parser.add_argument("--rounds", type=int, default=50, help="kills (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="decides the instants (default: 1)")
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"], help="kind of flush")
    asked = parser.parse_args()
    reason = peer.available("client")
    if reason is not None:
        parser.exit(1, f"{reason}\n")
    with (
        tempfile.TemporaryDirectory(prefix="reput-serve-rounds-") as folder,
        ServeRounds(Path(folder), asked.seed, asked.flush) as rounds,
    ):
        for number in range(1, asked.rounds + 1):
            sys.stdout.write(f"round {number} of {asked.rounds}: {rounds.round()}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{rounds.finish()}\n")


if __name__ == "__main__":
    main()
