"""RocketMQ's Go client of version 5, its Node client and its Rust client see the same of our broker and of RocketMQ."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers
from broker.clients.grpc_client import ROOT
from peer import peer
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
GO_PROGRAM = peer.TARGET_DIR / "go5-client"
RUST_FOLDER = peer.TARGET_DIR / "rust-client"
NODE_VERSION = "1.0.8"
NODE_FOLDER = ROOT / ".cache" / f"node-client-{NODE_VERSION}"
BUILD_TIMEOUT_S = 600
RUN_TIMEOUT_S = 180


def made(words: Sequence[str], folder: Path) -> str | None:
    """Run a command that makes a client; return why it failed, None if it did not."""
    if shutil.which(words[0]) is None:
        return f"no {words[0]} on the PATH"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]} took more than {BUILD_TIMEOUT_S} s"
    return None if done.returncode == 0 else f"{words[0]} failed: {done.stderr.decode(errors='replace')}"


def go() -> list[str]:
    """The command of the Go client, which is built before; skips if it cannot be."""
    GO_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    reason = made(["go", "build", "-o", str(GO_PROGRAM), "."], HERE / "go5")
    if reason is not None:
        pytest.skip(f"the Go client of version 5 cannot be built: {reason}")
    return [str(GO_PROGRAM)]


def node() -> list[str]:
    """The command of the Node client, which is installed in a folder of its own before; skips if it cannot be."""
    wanted = f"rocketmq-client-nodejs@{NODE_VERSION}"
    options = ["--prefix", str(NODE_FOLDER), "--ignore-scripts", "--no-audit", "--no-fund"]
    is_there = (NODE_FOLDER / "node_modules" / "rocketmq-client-nodejs").exists()
    reason = None if is_there else made(["npm", "install", *options, wanted], NODE_FOLDER)
    if reason is not None:
        pytest.skip(f"the Node client cannot be installed: {reason}")
    return ["node", str(HERE / "node" / "program.js"), str(NODE_FOLDER)]


def rust() -> list[str]:
    """The command of the Rust client, which is built before; skips if it cannot be."""
    words = ["cargo", "build", "--locked", "--manifest-path", str(HERE / "rust" / "Cargo.toml")]
    reason = made([*words, "--target-dir", str(RUST_FOLDER)], RUST_FOLDER)
    if reason is not None:
        pytest.skip(f"the Rust client cannot be built: {reason}")
    return [str(RUST_FOLDER / "debug" / "reput-rust-client")]


PUSHED = {"pushed": [f"push{number} {attempt}" for number in range(3) for attempt in (1, 2)]}
PAID = {"paid": ["committed"]}
TOPICS = {"normal": (4, "NORMAL"), "push": (4, "NORMAL"), "paid": (1, "TRANSACTION")}

each_language = pytest.mark.parametrize(("language", "further"), [(go, PUSHED), (node, PUSHED), (rust, PAID)])


def check_seen(words: Sequence[str], address: str | None, further: dict[str, object]) -> None:
    """Run a client with the gRPC port at an address; assert what it has seen."""
    assert address is not None
    done = subprocess.run([*words, address], capture_output=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "got": [[f"normal{number}", "even", [f"k{number}"], f"{number}", 1] for number in range(0, 8, 2)],
        "then": [],
        **further,
    }


@each_language
def test_a_client_gets_what_it_has_sent(
    language: Callable[[], list[str]], further: dict[str, object], tmp_path: Path
) -> None:
    """By a simple consumer with a filter.

    A push consumer gets what it failed with once more. The Rust client has none: it gets the transaction that it has
    committed, and not the one that it has rolled back.
    """
    words = language()
    with reput.serve(tmp_path / "store", topics=TOPICS, grpc_port=0) as broker:
        check_seen(words, broker.grpc_address, further)
    assert_sound(tmp_path / "store")


@each_language
def test_a_client_sees_the_same_of_rocketmq(
    language: Callable[[], list[str]], further: dict[str, object], tmp_path: Path
) -> None:
    """With RocketMQ's proxy before its broker."""
    for reason in (peer.available("broker"), peer.available("proxy")):
        if reason is not None:
            pytest.skip(reason)
    words = language()
    with (
        brokers.rocketmq(tmp_path / "store", tmp_path / "home") as broker,
        brokers.proxied(broker, tmp_path / "proxy") as (serving, _),
    ):
        queues, types = ({topic: given[at] for topic, given in TOPICS.items()} for at in (0, 1))
        brokers.make_topics(serving, queues, types)
        check_seen(words, serving.grpc, further)
