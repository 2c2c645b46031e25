"""Batches as clients have sent them: the log gets what it gets from the same messages one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput import kernels
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.properties import text_properties
from reput.formats.log.record import Host
from reput.log.encode import client_batch, queue_directory
from reput.log.encode.client_batch import SentBatch
from reput.log.encode.message import Message, PutStatus
from support.appends import open_log
from support.twins import TWINS

if TYPE_CHECKING:
    from pathlib import Path

LATE_MS = 1 << 50
HOST = Host(b"\x0a\x01\x02\x03", 51234)
TEXTS = ("", "a\x01b", "TAGS\x01paid\x02KEYS\x01k 1\x02UNIQ_KEY\x01u\x02", "own\x01wert ä")
MESSAGES = st.builds(
    InnerMessage,
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=40),
    st.sampled_from([text.encode() for text in TEXTS]),
)


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The twin whose kernels the batches take."""
    monkeypatch.setattr(queue_directory, "encode_kernels", lambda: kernels.encode_kernels(request.param))
    monkeypatch.setattr(client_batch, "lasting_kind", lambda: request.param)
    return str(request.param)


def sent(messages: list[InnerMessage], topic: str = "orders", queue_id: int = 3) -> SentBatch:
    """A batch of these messages."""
    return SentBatch(topic, queue_id, encode_messages(messages), 1, 1_700_000_000_000, HOST)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(batches=st.lists(st.lists(MESSAGES, min_size=1, max_size=5), min_size=1, max_size=3))
@pytest.mark.usefixtures("twin")
def test_the_log_is_the_same(tmp_path_factory: pytest.TempPathFactory, batches: list[list[InnerMessage]]) -> None:
    """Byte by byte, and so are the answers; topics and queues differ from batch to batch."""
    folder = tmp_path_factory.mktemp("logs")
    files = []
    for way in ("whole", "single"):
        with open_log(folder / way, last_store_timestamp=LATE_MS) as log:
            for number, messages in enumerate(batches):
                batch = sent(messages, f"t{number % 2}", number)
                if way == "whole":
                    result = log.append_client_batch(batch)
                else:
                    result = log.append_many([_message(batch, one) for one in messages], batch.queue_id)
                assert result is not None
                assert result.status is PutStatus.PUT_OK
                files.append((result.physical_offsets.tolist(), result.queue_offsets.tolist(), result.sizes.tolist()))
        files.append(next((folder / way).iterdir()).read_bytes())
    assert files[: len(files) // 2] == files[len(files) // 2 :]


def _message(batch: SentBatch, one: InnerMessage) -> Message:
    return Message(
        batch.topic,
        one.body,
        properties=text_properties(one.properties),
        flag=one.flag,
        sys_flag=batch.sys_flag,
        born_timestamp=batch.born_timestamp,
        born_host=batch.born_host,
    )


@pytest.mark.usefixtures("twin")
def test_what_needs_a_look_is_not_stored(tmp_path: Path) -> None:
    """A body that is cut, and one with a delayed message, give None; a body over the limit is refused; all is whole."""
    good = InnerMessage(0, b"x", b"")
    with open_log(tmp_path / "log", file_size=8 << 20) as log:
        delayed = sent([good, InnerMessage(0, b"x", b"DELAY\x013")])
        cut = sent([good])._replace(body=sent([good]).body[:-1])
        assert log.append_client_batch(delayed) is None
        assert log.append_client_batch(cut) is None
        refused = log.append_client_batch(sent([good, InnerMessage(0, bytes((4 << 20) + 1), b"")]))
        assert refused is not None
        assert (refused.status, "message 1" in refused.reason) == (PutStatus.MESSAGE_ILLEGAL, True)
        assert log.wrote == 0
        stored = log.append_client_batch(sent([good]))
        assert stored is not None
        assert stored.queue_offsets.tolist() == [0]
