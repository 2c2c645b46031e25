"""docs/tasks/serve.md names each request that the broker serves, each that it leaves out, and each of its limits."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import reput
from broker.clients.run import PROGRAMS, java_words
from peer import peer
from reput.broker import metrics, pytest_plugin, server
from reput.broker.handlers import acks, group_offsets, members, queries
from reput.broker.handlers.sends import SEND_CODES
from reput.broker.handlers.table import HANDLERS
from reput.broker.services import holds, leases, polls, pops, syncs, transactions, waiting
from reput.broker.state import (
    committed,
    config_writes,
    configuration,
    consumers,
    locks,
    request_modes,
    state,
    statistics,
)
from reput.broker.wire import client_calls, connection, listener, pages, requests
from reput.formats.topics import topic_names
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.remoting import MAX_FRAME_SIZE
from reput.log.append.settings import DEFAULT_MAX_MESSAGE_SIZE, DEFAULT_SYNC_FLUSH_TIMEOUT_MS
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "serve.md"
ROW = re.compile(r"^\|[^|]*\|([ \d,]*)\|[^|]*\|", re.MULTILINE)
SENT = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE,
}
"""The requests that the broker sends to clients."""


_CODES = (
    "10 11 12 13 14 15 17 18 21 22 23 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 45 46 47 60 61 100 "
    "101 102 103 104 105 106 200 201 202 203 204 205 206 207 208 209 210 211 212 213 214 215 216 217 219 220 221 "
    "222 223 224 225 300 301 302 303 304 305 306 307 308 309 310 311 312 313 314 315 316 317 318 319 320 321 322 "
    "323 324 325 326 327 328 329 343 345 351 352 353 354 355 361 370 400 401 402 513 901 902 903 904 905 906 907 "
    "908 1001 1002 1003 1004 1005 1006 1007 1008 1009 1010 1011 1012 1013 2001 2002 2003 2004 3001 3002 3003 3004 "
    "3005 3006 3007 3008 3009 3010 5001 5002 5003 200050 200051 200052 200053 200054 200055 200056 200070 200071 "
    "200072 200073 200074 200075 200076 200077 200078 200079 200151 "
)
ALL_CODES = {int(code) for code in _CODES.split()}
"""The request codes of RocketMQ 5.5.1 (`org.apache.rocketmq.remoting.protocol.RequestCode`)."""


def codes(section: str) -> list[int]:
    """Return the request codes in the table of a section."""
    text = PAGE.read_text("utf-8").split(f"## {section}")[1].split("\n## ")[0]
    return [int(code) for found in ROW.findall(text) for code in re.findall(r"\d+", found)]


def size(count: int) -> str:
    """Spell a number of bytes as the page does."""
    units = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    bits, unit = next((bits, unit) for bits, unit in units if count % (1 << bits) == 0)
    return f"{count >> bits} {unit}"


def test_the_page_names_the_limits() -> None:
    """Each limit of the table is that of the code, and each limit of the code is in the table."""
    table = PAGE.read_text("utf-8").split("## Limits")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.splitlines() if line.startswith("| ")]
    spare = listener.SPARE_HANDLES
    limits = [
        size(MAX_FRAME_SIZE),
        size(MAX_FRAME_SIZE),
        size(connection.MAX_HEADER),
        f"`maxMessageSize`, {size(DEFAULT_MAX_MESSAGE_SIZE)}",
        f"{transactions.MAX_HALF_PROPERTIES:,} bytes",
        size(requests.MAX_JSON),
        f"{consumers.MAX_EXPRESSION:,} characters",
        f"{consumers.MAX_WORDS:,}",
        f"{consumers.MAX_STEPS:,}, or one message",
        f"{consumers.MAX_CLIENT_ID:,} characters",
        f"{topic_names.LONGEST_NAME} characters",
        f"{server.MAX_CONNECTIONS:,}",
        f"all but {spare} files, or a quarter of fewer than {4 * spare:,}",
        f"{members.MAX_MEMBERS:,}",
        f"{consumers.MAX_SUBSCRIBED:,} characters",
        f"{locks.MAX_LOCKS:,}",
        size(server.MAX_INPUT),
        f"{state.MAX_WORK:,}, and {size(state.MAX_WORK_BYTES)} of requests",
        f"`syncFlushTimeout`, {DEFAULT_SYNC_FLUSH_TIMEOUT_MS // 1000} s",
        f"{syncs.MAX_SYNCS:,}, and {size(syncs.MAX_SYNC_BYTES)} of requests",
        f"{config_writes.MAX_UNWRITTEN:,}, and {size(config_writes.MAX_UNWRITTEN_BYTES)} of requests",
        f"{transactions.MAX_ENDING:,}",
        f"{transactions.MAX_DONE:,}",
        f"{server.IDLE_S:.0f} s",
        f"{server.TURN_S * 1000:.0f} ms, or one request",
        size(connection._HIGH_WATER),
        size(connection.MAX_OUTPUT),
        size(server.MAX_ALL_OUTPUT),
        f"{holds.MAX_HELD:,}, and {size(waiting.MAX_WAITING_BYTES)} of requests",
        f"{waiting.MAX_WAIT_MS // 1000} s",
        f"{polls.MAX_POLLS:,}, and {size(waiting.MAX_WAITING_BYTES)} of requests",
        f"{polls.MAX_LINE:,}",
        f"{polls.MAX_WATCHED:,}",
        f"{pops.MAX_ATTEMPT_ID:,} characters",
        f"{acks.MAX_ACKS}",
        f"{leases.MAX_LEASED:,}",
        f"{client_calls.MAX_WAITING:,}",
        f"{queries.MAX_FOUND}, and {size(queries.MAX_FOUND_BYTES)}",
        f"{BROKER_PULL_MESSAGES} messages, {size(BROKER_PULL_BYTES)}",
        f"{configuration.MAX_QUEUES:,}",
        f"{configuration.MAX_TOPICS:,}",
        f"{configuration.MAX_GROUPS:,}",
        f"{committed.MAX_OFFSETS:,}",
        f"{request_modes.MAX_MODES:,}",
        f"{group_offsets.MAX_LISTED_QUEUES:,}",
        f"{configuration.MAX_SERVED_QUEUES:,}",
        f"`syncFlushTimeout`, {DEFAULT_SYNC_FLUSH_TIMEOUT_MS // 1000} s",
        f"{server._DRAIN_S:.0f} s",
        "",
        f"{pages.MAX_PAGE_CONNECTIONS}",
        f"{size(pages.MAX_REQUEST)}, {pages.PAGE_TIME_OUT_S:.0f} s",
        f"{statistics.MAX_COUNTED:,}",
        f"{metrics.MAX_LAG_QUEUES:,}",
        "`tail_max_entries`",
    ]
    assert [value for _, value, _ in rows[1:]] == limits
    assert f"after {server.STALLED_S:.0f} s in which it reads nothing" in table
    # No module of the broker has a bound that neither the list above nor the test of gRPC's page names.
    modules = sorted(Path(reput.__file__).parent.glob("broker/**/*.py"))
    # Those of gRPC have a page and a test of their own.
    source = "\n".join(path.read_text() for path in modules if "grpc" not in path.parts)
    bounds = set(re.findall(r"^(MAX_\w+)(?:: Final)? =", source, re.MULTILINE))
    of_grpc = Path(__file__).with_name("test_grpc.py").read_text()
    named = {name for name in bounds if f".{name}" in Path(__file__).read_text() or f"{name}:" in of_grpc}
    assert bounds == named


def test_the_page_names_what_is_served() -> None:
    """Each code of a handler, of a send or of a request to clients is in one row that is served, and no other code."""
    assert sorted(codes("What is supported")) == sorted({*HANDLERS, *SEND_CODES, *SENT})
    assert sorted({*HANDLERS, *SEND_CODES, *SENT}) == sorted(RequestCode)


def test_the_page_names_what_is_left_out() -> None:
    """Each other code of RocketMQ is in one row of what is left out, and no other code."""
    assert sorted(codes("What is left out")) == sorted(ALL_CODES - set(RequestCode))
    assert set(RequestCode) <= ALL_CODES


@pytest.mark.parametrize("which", ["reput.Producer", "def ask"])
def test_the_clients_of_the_page_work(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each Python client of the page sends and gets what the page says."""
    section = PAGE.read_text("utf-8").split("## From Python")[1].split("\n## ")[0]
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if which in one]
    with reput.serve() as broker:
        exec(code.replace("9876", broker.address.split(":")[1]), {})
    assert capsys.readouterr().out.strip() == code.splitlines()[-1].partition("# ")[2]


@pytest.mark.peer
def test_the_java_clients_of_the_page_work(tmp_path: Path) -> None:
    """The Java lines of the page compile, and the consumer gets what the producer has sent."""
    if (reason := peer.available(PROGRAMS["5.5.0"])) is not None:
        pytest.skip(reason)
    (code,) = re.findall(r"```java\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    packages = ("client.producer", "client.consumer", "client.consumer.listener", "common.message")
    imports = "".join(f"import org.apache.rocketmq.{name}.*;\n" for name in packages)
    source = tmp_path / "Page.java"
    with reput.serve(topics={"orders": 4}) as broker:
        code = code.replace("127.0.0.1:9876", broker.address)
        source.write_text(
            f"{imports}class Page {{ public static void main(String[] a) throws Exception {{ {code} }} }}"
        )
        words = [*java_words(PROGRAMS["5.5.0"], tmp_path / "home"), str(source)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as java:
            assert java.stdout is not None
            printed = next((line for line in java.stdout if "MessageExt" in line), "")
            java.kill()
    assert "topic='orders'" in printed
    assert "TAGS=paid" in printed


def test_the_page_names_the_fixtures() -> None:
    """The page has each fixture of the pytest plugin, and its example is a test that passes."""
    section = PAGE.read_text("utf-8").split("## In tests")[1].split("\n## ")[0]
    fixtures = {name for name, one in vars(pytest_plugin).items() if type(one) is type(pytest_plugin.rocketmq_broker)}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == fixtures
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    with reput.serve(topics=["made"]) as broker:
        names["test_orders"](broker, "made")
