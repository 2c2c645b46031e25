"""Runs RocketMQ's Java clients against a broker: the programs `client` and `client4` of `peer`, which Maven builds."""

from __future__ import annotations

import contextlib
import json
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.clients.brokers import make_topics, set_to_pop
from broker.clients.member import Member
from peer import peer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from broker.clients.brokers import Serving

PROGRAMS = {"5.5.0": "client", "4.9.7": "client4"}
"""The program of `peer` for each version of the Java client."""
TOPICS = {
    "send": 4,
    "tags": 2,
    "sql": 2,
    "broadcast": 2,
    "ordered": 4,
    "ordered-dead": 1,
    "retry": 2,
    "dead": 2,
    "pop": 4,
    "assign": 2,
    "ask": 1,
    "rebalance": 4,
    "delay": 2,
    "timer": 2,
    "recall": 2,
    "transaction": 2,
    "admin": 2,
}
"""The topics of the scenarios, with their queues; `fresh` is made by its first message."""
_LIVES = ("both got", "another came", "it was cut off", "it came back", "it was killed")
SEEN: dict[str, Callable[[Any], bool]] = {
    "send": lambda outcome: outcome["queues"] == [0, 1, 2, 3] and outcome["batch"] == "SEND_OK 20 1",
    "refused": lambda outcome: outcome["queue"] == "broker 29",
    "push": lambda outcome: len(outcome["got"]) == 81,
    "tags": lambda outcome: len(outcome["got"]) == 20,
    "sql": lambda outcome: len(outcome["got"]) == 16,
    "broadcast": lambda outcome: len(outcome["got0"]) == len(outcome["got1"]) == 12,
    "ordered": lambda outcome: outcome["key3"][:2] == ["key3-0 0", "key3-1 0"] and len(outcome["key3"]) == 21,
    "ordered-dead": lambda outcome: len(outcome["dead"]) == 1,
    "retry": lambda outcome: len(outcome["tries"]) == 15,
    "dead": lambda outcome: len(outcome["dead"]) == 4,
    "pop": lambda outcome: len(outcome["got"]) == 36,
    "pull": lambda outcome: len(outcome["got"]) == 81,
    "assign": lambda outcome: len(outcome["from 7"]) == 3 and outcome["committed"] == 10,
    "ask": lambda outcome: len(outcome["by key"]) == 1,
    "rebalance": lambda outcome: outcome["after 2"] == "[2, 2]" and all(map(outcome.get, _LIVES)),
    "delay": lambda outcome: len(outcome["got"]) == 8 and outcome["late"],
    "timer": lambda outcome: len(outcome["got"]) == 4 and outcome["late"],
    "recall": lambda outcome: (outcome["recalled"], len(outcome["got"])) == (3, 3),
    "transaction": lambda outcome: len(outcome["got"]) == 3 and len(outcome["checked"]) == 2,
}
"""The scenarios of `Scenario.java`, and what must be so in each: two brokers that both do nothing agree, too."""
_NEWER = frozenset({"pop", "recall"})
SCENARIOS = {version: tuple(name for name in SEEN if name not in _NEWER or version != "4.9.7") for version in PROGRAMS}
"""The scenarios of each version; 4.9.7 has no consumers that pop, and recalls no messages."""
RUN_TIMEOUT_S = 300


class Ran(NamedTuple):
    """The output of a run of clients: the line of each scenario, and the text that each command of mqadmin wrote."""

    scenarios: dict[str, Any]
    commands: dict[str, str]

    def outcome(self, name: str) -> Any:
        """Return the outcome that the clients of a scenario reported.

        Raises:
            PeerError: it failed; the text has the error of the client.
        """
        line = self.scenarios[name]
        if "error" in line:
            raise peer.PeerError(f"{name}: {line['error']}")
        return line["outcome"]


class Compared(NamedTuple):
    """The runs of one version of the client with the two brokers."""

    theirs: Ran
    ours: Ran


def java_words(program: str, home: Path, jvm: Sequence[str] = ()) -> list[str]:
    """Return the command of Java for a program of `peer`, without its class; its logs and offsets go to `home`.

    `jvm`: further options of Java.
    """
    home.mkdir(parents=True, exist_ok=True)
    words = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m", f"-Duser.home={home}"]
    words += [f"-Drocketmq.client.logRoot={home}", f"-Drocketmq.client.localOffsetStoreDir={home}"]
    return [*words, *jvm, "-cp", peer.PROGRAMS[program].classpath]


def prefix_of(version: str) -> str:
    """Return the beginning of the names of topics and groups for a version of the client."""
    return f"v{version.replace('.', '')}-"


def topics_of(prefix: str) -> dict[str, int]:
    """Return the topics of the scenarios under a prefix, with their queues."""
    return {f"{prefix}{topic}": queues for topic, queues in TOPICS.items()}


def run(
    version: str,
    serving: Serving,
    prefix: str,
    names: Sequence[str],
    home: Path,
    commands: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    jvm: Sequence[str] = (),
    makes_topics: bool = True,
) -> Ran:
    """Run scenarios of `Scenario.java` at the same time, then commands of mqadmin.

    Args:
        version: the version of the client.
        serving: the broker.
        prefix: the beginning of the names of topics and groups.
        names: the scenarios.
        home: a folder for the client's logs and local offsets; mqadmin writes a file of each consumer below its own.
        commands: the words of each command, by a name for it; `{namesrv}` and `{broker}` are the addresses.
        jvm: further options of Java.
        makes_topics: make the topics of the scenarios first.

    Raises:
        PeerError: Java failed, or took too long.
    """
    if makes_topics:
        make_topics(serving, topics_of(prefix))
    if "pop" in names:
        set_to_pop(serving, f"{prefix}pop", f"{prefix}pop-group")
    program = peer.PROGRAMS[PROGRAMS[version]]
    words = [*java_words(PROGRAMS[version], home, jvm), *program.words, serving.namesrv, prefix, *names]
    addresses = {"namesrv": serving.namesrv, "broker": serving.broker}
    lines_in = ["\t".join([name, *(word.format(**addresses) for word in line)]) for name, line in commands.items()]
    stdin = "".join(f"{line}\n" for line in lines_in).encode()
    member = Member(java_words(PROGRAMS[version], home), serving, prefix)
    with member.lives() if "rebalance" in names else contextlib.nullcontext():
        try:
            done = subprocess.run(words, input=stdin, capture_output=True, timeout=RUN_TIMEOUT_S, cwd=home, check=False)
        except subprocess.TimeoutExpired as late:
            raise peer.PeerError(f"clients of {serving.name} took more than {RUN_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise peer.PeerError(f"clients of {serving.name} failed: {done.stderr.decode(errors='replace').strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"')]
    return Ran(
        {line["scenario"]: line for line in lines if "scenario" in line},
        {line["command"]: line["output"] for line in lines if "command" in line},
    )
