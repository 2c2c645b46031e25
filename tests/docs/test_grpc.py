"""docs/tasks/grpc.md names each call of the protocol, each limit of gRPC, and the code for each refusal."""

from __future__ import annotations

import re
from pathlib import Path

import reput
from docs.test_serve import size
from reput.broker.grpc import checks, clients, leased, lite, receive, sends, server, settings, statuses
from reput.broker.grpc.protocol import service_pb2
from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.broker.services.lite import MAX_SUBSCRIPTIONS
from reput.broker.services.polls import MAX_LINE
from reput.broker.services.pops import MAX_ATTEMPT_ID
from reput.formats.topics.lite_groups import DEFAULT_QUOTA
from reput.formats.wire.codes import ResponseCode
from reput.log.append.settings import DEFAULT_MAX_MESSAGE_SIZE
from reput.times import HOUR_MS

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "grpc.md"


def rows(section: str) -> list[list[str]]:
    """The rows of the tables of a section, without their heads."""
    text = PAGE.read_text("utf-8").split(f"## {section}")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_page_names_the_limits() -> None:
    """Each limit of the table is that of the code, and each limit of the code is in the table."""
    limits = [
        size(server.MAX_REQUEST),
        f"{receive.MAX_ENTRIES:,}, and {size(receive.MAX_ACK_BYTES)}",
        "",
        f"{server.MAX_CALLS:,}",
        f"{server.MAX_STREAMS:,}",
        f"{clients.MAX_CLIENTS:,}",
        f"{clients.SILENT_S:.0f} s; {clients.GONE_S:.0f} s without a stream, or before its settings",
        f"{size(settings.MAX_SETTINGS)}; {size(clients.MAX_SETTINGS_BYTES)}",
        f"{clients.MAX_COMMANDS:,}; {size(clients.MAX_COMMAND_BYTES)}",
        f"`maxMessageSize`, {size(DEFAULT_MAX_MESSAGE_SIZE)}",
        f"{sends.MAX_USER_PROPERTIES}, and {size(sends.MAX_USER_PROPERTY_BYTES)}",
        f"{sends.MAX_MESSAGE_GROUP - 1} bytes",
        f"{checks.MAX_LITE_TOPIC} letters, digits, `-` and `_`",
        f"`lite.sub.client.quota` of the group, {DEFAULT_QUOTA:,}, and {lite.QUOTA_RESERVE} more",
        f"{MAX_SUBSCRIPTIONS:,}",
        f"{receive.MAX_LITE_HELD}",
        f"{sends.MAX_DELAY_MS // HOUR_MS} h ahead",
        f"{settings.BATCH_SIZE}",
        f"{receive.SHORTEST_POLL_MS // 1000} s to {settings.LONGEST_POLL_MS // 1000} s",
        f"{MAX_LINE:,}",
        f"{MAX_ATTEMPT_ID:,} characters",
        f"{receive.SHORTEST_LEASE_MS // 1000} s to {receive.LONGEST_LEASE_MS // HOUR_MS} h; a change may be shorter",
        f"{leased.LEASE_MS // 1000} s, renewed for {leased.LONGEST_MS // HOUR_MS} h",
        f"{sends.MAX_RECOVERY_S:,} s",
    ]
    assert [value for _, value, _ in rows("Limits")[1:]] == limits
    source = "\n".join(path.read_text() for path in sorted(Path(reput.__file__).parent.glob("broker/grpc/*.py")))
    bounds = set(re.findall(r"^((?:MAX|SHORTEST|LONGEST)_\w+)(?:: Final)? =", source, re.MULTILINE))
    assert {name for name in bounds if f".{name}" not in Path(__file__).read_text()} == set()


def test_the_page_names_each_call() -> None:
    """Each call of the protocol is in one row."""
    service = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
    named = [name.strip() for row in rows("What is supported") for name in row[0].split(",")]
    calls = [one.name for one in service.methods]
    assert sorted(name for name in named if name in calls) == sorted(calls)
    assert set(calls) == {*server.METHODS, *server.STREAMS, "Telemetry"}


def test_the_page_names_the_codes_of_refusals() -> None:
    """Each response code of the broker is answered by the code of its row."""
    found: dict[int, int] = {}
    for asked, answered in [row for row in rows("What is supported") if re.match(r"\d", row[0])]:
        found |= {int(number): int(answered.split()[0]) for number in re.findall(r"\d+", asked)}
    expected = {one: int(statuses.code_of(one)) for one in ResponseCode if one != ResponseCode.SUCCESS}
    assert {one: found.get(one, int(Code.INTERNAL_SERVER_ERROR)) for one in expected} == expected
    assert found.keys() <= expected.keys()
