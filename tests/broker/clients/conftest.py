"""All scenarios of the Java clients with both brokers, run once, and what they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients import brokers, mqadmin
from broker.clients.run import PROGRAMS, SCENARIOS, Compared, Ran, prefix_of, run
from peer import peer
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

    from broker.clients.brokers import Serving


@pytest.fixture(scope="session")
def programs() -> None:
    """RocketMQ's broker and clients; skips where Maven or Java is missing."""
    for program in ("broker", *PROGRAMS.values()):
        reason = peer.available(program)
        if reason is not None:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def compared(programs: None, folder: Path) -> dict[str, Compared]:
    """The runs of each version of the client, with one broker after the other; ours leaves a sound store."""
    with brokers.rocketmq(folder / "theirs", folder / "home") as serving:
        theirs = _all_versions(serving, folder)
    with brokers.ours(folder / "ours") as serving:
        ours = _all_versions(serving, folder)
    assert_sound(folder / "ours", brokers.config_of())
    return {version: Compared(theirs[version], ours[version]) for version in PROGRAMS}


def _all_versions(serving: Serving, folder: Path) -> dict[str, Ran]:
    """Run the scenarios with each version of the client beside a broker."""
    ran = {}
    for version in PROGRAMS:
        prefix = prefix_of(version)
        commands = mqadmin.commands(prefix) if version == mqadmin.VERSION else {}
        ran[version] = run(version, serving, prefix, SCENARIOS[version], folder / f"{serving.name}-{version}", commands)
    return ran


@pytest.fixture(scope="session")
def our_store(compared: dict[str, Compared], folder: Path) -> Path:
    """The store that our broker has served, and closed."""
    assert compared
    return folder / "ours"
