"""Kill rounds: `reput serve` is killed at random instants while RocketMQ's clients send to it and consume in order.

python -m broker.clients.rounds --rounds 100 --seed 7 --clients java,go

After each kill the broker starts again on the same store and port, and the clients, one process of each language for
all rounds, go on. In the end:

- each message that was acknowledged is at its place, once;
- each queue was delivered without a gap: a message again after a kill, but none before the one before it;
- offsets that were on disk before a kill were not lower after it;
- `check` is clean.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import reput
from broker.clients import go_client
from broker.clients.brokers import Serving, make_topics
from broker.clients.run import java_words
from broker.remoting import Client
from peer import peer
from reput.formats.java.fastjson import parse_fastjson
from reput.formats.wire.codes import RequestCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

QUEUES = 4
CLIENTS = ("java", "go")
LIMIT_S = 60.0
SETTINGS = "flushConsumerOffsetInterval=200\n"


class Heard:
    """The reports of a client so far."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], str] = {}
        self.delivered: list[dict[int, str]] = [{} for _ in range(QUEUES)]
        self.wrong: list[str] = []
        self.is_done = False

    @property
    def got(self) -> int:
        """The number of messages that were delivered, each counted once."""
        return sum(map(len, self.delivered))

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


def unavailable(clients: Sequence[str]) -> str | None:
    """Why clients of these languages cannot run here, or None once they are built and can."""
    reasons = {"java": lambda: peer.available("client"), "go": go_client.unavailable}
    return next(filter(None, (reasons[language]() for language in clients)), None)


class LastingClient:
    """A producer and a consumer of one language that outlast their broker, on a topic of their own.

    Args:
        language: the language, one of `CLIENTS`.
        folder: a folder for the client's logs.

    Attributes:
        topic: its topic.
        group: its consumer group.
        heard: its reports so far.
    """

    def __init__(self, language: str, folder: Path) -> None:
        self._language = language
        self._folder = folder
        self._prefix = f"rounds-{language}-"
        self.topic = f"{self._prefix}lasting"
        self.group = f"{self.topic}-group"
        self.heard = Heard()

    def start(self, address: str) -> None:
        """Let it send and consume. `address`: that of the name server."""
        words = [str(go_client.PROGRAM), address, self._prefix, "lasting"]
        if self._language == "java":
            words = [*java_words("client", self._folder), "reput.clients.Lasting", address, self._prefix]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self._listener = threading.Thread(target=self.heard.listen, args=[self._process], daemon=True)
        self._listener.start()

    def send_no_more(self) -> None:
        """Let it send no more; it consumes on."""
        assert self._process.stdin is not None
        self._process.stdin.write("enough\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def committed(self, broker: Client) -> dict[int, int]:
        """Return the broker's offset of each queue in which one is committed."""
        found = {}
        for queue_id in range(QUEUES):
            asked = {"consumerGroup": self.group, "topic": self.topic, "queueId": queue_id}
            answer = broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, **asked)
            if "offset" in answer.fields:
                found[queue_id] = int(answer.fields["offset"])
        return found


class ServeRounds:
    """One store, one port and a client of each language, while brokers come and are killed.

    Args:
        folder: a folder for all.
        seed: decides the instants.
        flush: the kind of flush.
        clients: the languages of the clients.
    """

    def __init__(
        self, folder: Path, seed: int, flush: str = "ASYNC_FLUSH", clients: Sequence[str] = CLIENTS[:1]
    ) -> None:
        self.store = folder / "store"
        self._folder = folder
        self._chance = random.Random(seed)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        address = f"127.0.0.1:{self._port}"
        self._serving = Serving("reput", address, address, self.store)
        self._settings = folder / "broker.conf"
        self._settings.write_text(f"{SETTINGS}flushDiskType={flush}\n")
        self._clients = [LastingClient(language, folder / language) for language in clients]

    def __enter__(self) -> Self:
        self._start_broker()
        make_topics(self._serving, {client.topic: QUEUES for client in self._clients})
        for client in self._clients:
            client.start(self._serving.namesrv)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.kill()
        self._broker.kill()
        self._broker.wait()

    def _start_broker(self) -> None:
        words = [sys.executable, "-X", "faulthandler", "-m", "reput", "serve", str(self.store)]
        words += ["--port", str(self._port), "--config", str(self._settings)]
        with (self._folder / "broker.log").open("ab") as log:
            self._broker = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            wait_until(self._answers, "the broker's start", LIMIT_S)
        except AssertionError as error:
            # Its log then has what each of its threads does.
            self._broker.send_signal(signal.SIGABRT)
            self._broker.wait()
            raise AssertionError(f"{error}: {(self._folder / 'broker.log').read_text()[-4000:]}") from None

    def _answers(self) -> bool:
        if self._broker.poll() is not None:
            raise AssertionError(f"the broker has ended: {(self._folder / 'broker.log').read_text()}")
        with contextlib.suppress(OSError), Client(self._serving.broker) as client:
            return client.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
        return False

    def round(self) -> str:
        """Let messages be delivered, kill the broker at a random instant, and start it again; say what was done."""
        begun_s = time.monotonic()
        counts = [(client.heard, len(client.heard.sent), client.heard.got) for client in self._clients]
        # A Go consumer gets nothing until its next heartbeat, which may be 30 s later; it catches up then.
        wait_until(
            lambda: (
                all(len(heard.sent) > sent for heard, sent, _ in counts)
                and any(heard.got > got for heard, _, got in counts)
            ),
            "messages sent and delivered",
            LIMIT_S,
        )
        delivered_s = time.monotonic()
        time.sleep(self._chance.random())
        before = [self._offsets_on_disk(client) for client in self._clients]
        self._broker.kill()
        self._broker.wait()
        killed_s = time.monotonic()
        self._start_broker()
        started_s = time.monotonic()
        with Client(self._serving.broker) as broker:
            for client, offsets in zip(self._clients, before, strict=True):
                after = client.committed(broker)
                for queue_id, offset in offsets.items():
                    if after.get(queue_id, -1) < offset:
                        words = f"the committed offset was {offset}, and is {after.get(queue_id, -1)}"
                        client.heard.wrong.append(f"{client.topic}, queue {queue_id}: {words}")
        self.check_heard()
        acknowledged = sum(len(client.heard.sent) for client in self._clients)
        times = f"{delivered_s - begun_s:.1f} s until messages came, {started_s - killed_s:.1f} s to start"
        return f"killed with {acknowledged} acknowledged, {sum(one.heard.got for one in self._clients)} got; {times}"

    def _offsets_on_disk(self, client: LastingClient) -> dict[int, int]:
        path = self.store / "config" / "consumerOffset.json"
        table = parse_fastjson(path.read_bytes())["offsetTable"] if path.exists() else {}
        offsets = table.get(f"{client.topic}@{client.group}", {})
        return {int(queue_id): offset for queue_id, offset in offsets.items()}

    def _wait_for(self, client: LastingClient, end: int) -> None:
        words = f"the delivery of all {end} stored messages of {client.topic}"
        wait_until(lambda: client.heard.got >= end, words, LIMIT_S)

    def check_heard(self) -> None:
        """Fail with what was wrong."""
        wrong = [text for client in self._clients for text in client.heard.wrong]
        assert not wrong, "\n".join(wrong[:20])

    def finish(self) -> str:
        """End the clients when they have got all, and look at the store; say how much was sent."""
        for client in self._clients:
            client.send_no_more()
        wait_until(lambda: all(client.heard.is_done for client in self._clients), "the end of each client", LIMIT_S)
        stored = 0
        for client in self._clients:
            with Client(self._serving.broker) as broker:
                fields = [{"topic": client.topic, "queueId": queue_id} for queue_id in range(QUEUES)]
                ends = [int(broker.ask(RequestCode.GET_MAX_OFFSET, **one).fields["offset"]) for one in fields]
            self._wait_for(client, sum(ends))
            stored += sum(ends)
        self._broker.terminate()
        self._broker.wait(LIMIT_S)
        self.check_heard()
        with reput.MessageStore.open(self.store, read_only=True) as store:
            for client in self._clients:
                for (queue_id, offset), body in client.heard.sent.items():
                    (message,) = store.get_message(client.topic, queue_id, offset, 1)
                    assert message.body.decode() == body, (client.topic, queue_id, offset)
        assert_sound(self.store)
        counts = [f"{len(client.heard.sent)} messages on {client.topic}" for client in self._clients]
        return f"{' and '.join(counts)} were acknowledged, {stored} stored and delivered"


def main() -> None:
    """Run rounds, and say what each did."""
    parser = argparse.ArgumentParser(description="Kill `reput serve` while RocketMQ's clients work with it.")
    parser.add_argument("--rounds", type=int, default=50, help="kills (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="decides the instants (default: 1)")
    parser.add_argument("--clients", default="java,go", help="languages, of java and go (default: java,go)")
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"], help="kind of flush")
    asked = parser.parse_args()
    clients = asked.clients.split(",")
    if not set(clients) <= set(CLIENTS):
        parser.error(f"--clients {asked.clients}: give java, go, or java,go")
    reason = unavailable(clients)
    if reason is not None:
        parser.exit(1, f"{reason}\n")
    with (
        tempfile.TemporaryDirectory(prefix="reput-serve-rounds-") as folder,
        ServeRounds(Path(folder), asked.seed, asked.flush, clients) as rounds,
    ):
        for number in range(1, asked.rounds + 1):
            sys.stdout.write(f"round {number} of {asked.rounds}: {rounds.round()}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{rounds.finish()}\n")


if __name__ == "__main__":
    main()
