"""A small remoting client for tests: it sends one frame, or several in one write, and reads answers."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Self

from reput.formats.log.record import Record, decode_record
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import FrameReader, RemotingFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import reput

TIMEOUT_S = 30.0


class Client:
    """A connection to a broker. Answers come by `opaque`; requests of the broker are kept in `asked`."""

    def __init__(self, address: str, header_type: int = frames.JSON_HEADER) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.asked: list[RemotingFrame] = []
        self._reader = FrameReader()
        self._answers: dict[int, RemotingFrame] = {}
        self._header_type = header_type
        self._opaque = 0

    def send(self, code: int, body: bytes = b"", *, frame_flag: int = 0, **fields: object) -> int:
        """Send a request; return its number."""
        return self.send_all([(code, body, frame_flag, fields)])[0]

    def send_all(self, requests: Sequence[tuple[int, bytes, int, dict[str, Any]]]) -> list[int]:
        """Send requests in one write; return their numbers."""
        data, numbers = b"", []
        for code, body, flag, fields in requests:
            self._opaque += 1
            numbers.append(self._opaque)
            texts = {name: _text(value) for name, value in fields.items()}
            data += frames.encode(
                RemotingFrame(code, self._opaque, flag, None, texts, body, header_type=self._header_type)
            )
        self.socket.sendall(data)
        return numbers

    def answer(self, number: int) -> RemotingFrame:
        """Wait for the answer to a request."""
        while number not in self._answers:
            self.receive()
        return self._answers.pop(number)

    def receive(self) -> None:
        """Take what comes next."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        for frame in self._reader.feed(data):
            if frame.is_answer:
                self._answers[frame.opaque] = frame
            else:
                self.asked.append(frame)

    def ask(self, code: int, body: bytes = b"", **fields: object) -> RemotingFrame:
        """Send a request, and wait for its answer."""
        return self.answer(self.send(code, body, **fields))

    def put(self, topic: str, body: bytes = b"body", queue_id: int = 0, **further: object) -> RemotingFrame:
        """Send a message (version 2) and wait for the answer."""
        return self.ask(RequestCode.SEND_MESSAGE_V2, body, **send_fields(topic, queue_id, **further))

    def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **further: object) -> RemotingFrame:
        """Pull messages and wait for the answer."""
        return self.ask(RequestCode.PULL_MESSAGE, **pull_fields(topic, queue_id, offset, **further))

    def heartbeat(self, client_id: str, group: str, version: int = 1, **topics: str) -> RemotingFrame:
        """Register as a consumer that subscribes to tags of topics."""
        subscriptions = [
            {"topic": topic, "subString": tags, "subVersion": version, "expressionType": "TAG"}
            for topic, tags in topics.items()
        ]
        kind = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        kind["consumeFromWhere"] = "CONSUME_FROM_FIRST_OFFSET"
        return self.beat(client_id, {"groupName": group, "subscriptionDataSet": subscriptions, **kind})

    def beat(self, client_id: str, *consumers: dict[str, Any]) -> RemotingFrame:
        """Send a heartbeat of consumers."""
        body = {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": []}
        return self.ask(RequestCode.HEART_BEAT, json.dumps(body).encode())

    def make_group(self, group: str) -> None:
        """Make a consumer group, as mqadmin does."""
        body = json.dumps({"groupName": group}).encode()
        assert self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == ResponseCode.SUCCESS

    def produce(self, client_id: str, group: str) -> RemotingFrame:
        """Register as a producer."""
        body = {"clientID": client_id, "consumerDataSet": [], "producerDataSet": [{"groupName": group}]}
        return self.ask(RequestCode.HEART_BEAT, json.dumps(body).encode())

    def next_asked(self) -> RemotingFrame:
        """Wait for a request of the broker."""
        while not self.asked:
            self.receive()
        return self.asked.pop(0)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def send_fields(topic: str, queue_id: int = 0, *, properties: str = "", **further: object) -> dict[str, object]:
    """The header of a send, version 2."""
    values = {"a": "pg", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1_700_000_000_000, "h": 0}
    return {**values, "i": properties, "j": 0, "k": False, "m": False, **further}


def pull_fields(topic: str, queue_id: int = 0, offset: int = 0, **further: object) -> dict[str, object]:
    """The header of a pull that has its subscription inside and does not wait."""
    values: dict[str, object] = {"consumerGroup": "g", "topic": topic, "queueId": queue_id, "queueOffset": offset}
    values |= {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0}
    return values | {"subVersion": 0, "subscription": "*", "expressionType": "TAG"} | further


def records(answer: RemotingFrame) -> list[Record]:
    """The records in the body of a pull's answer, which lie end to end."""
    found, at = [], 0
    while at < len(answer.body):
        size = int.from_bytes(answer.body[at : at + 4], "big")
        found.append(decode_record(memoryview(answer.body)[at : at + size]))
        at += size
    return found


def bodies(answer: RemotingFrame) -> list[bytes]:
    """The bodies in a pull's answer."""
    return [record.body for record in records(answer)]


def start_workers(running: reput.RunningBroker) -> None:
    """Start a broker's worker threads: a test that is the first to use them seems to leave them running."""
    running._broker._worker.submit(int).result()
    running._broker._notes.submit(int).result()
    running._broker.config_writes._thread.submit(int).result()
