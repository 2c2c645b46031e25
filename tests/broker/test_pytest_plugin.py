"""The fixtures that reput gives to pytest runs of others."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import reput
from broker.remoting import Client, bodies
from reput.broker import pytest_plugin
from reput.formats.wire.codes import ResponseCode

ROOT = Path(__file__).parents[2]
THEIR_TESTS = """
topics = []

def test_one(rocketmq_broker, rocketmq_topic, tmp_path):
    topics.append((rocketmq_broker.address, rocketmq_topic))

def test_two(rocketmq_broker, rocketmq_topics):
    mine = rocketmq_topics("orders / new", queues=2)
    topics.append((rocketmq_broker.address, mine))
    (first, one), (second, two) = topics
    assert first == second and one != two
    assert "test_two-orders-new" in two
    assert rocketmq_broker._broker.topics.get(mine)["readQueueNums"] == 2
"""


def test_tests_of_others_get_a_broker_and_topics(tmp_path: Path) -> None:
    """Once reput is installed pytest has its fixtures: all tests of a run share the broker; each has its own topics."""
    tests = tmp_path / "test_theirs.py"
    tests.write_text(THEIR_TESTS)
    words = [sys.executable, "-m", "pytest", "-q", str(tests)]
    run = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


def test_the_example_of_the_plugin_did_not_run(tmp_path: Path) -> None:
    """The example in the plugin's docstring is a test that passes as it is."""
    _, *pieces = (pytest_plugin.__doc__ or "").split("\n\n")
    example = "\n\n".join(piece for piece in pieces if piece.startswith("    "))
    tests = tmp_path / "test_example.py"
    tests.write_text(textwrap.dedent(example))
    words = [sys.executable, "-m", "pytest", "-q", str(tests)]
    run = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "1 passed" in run.stdout, run.stdout


def test_pytest_finds_the_plugin() -> None:
    """The package names its plugin where pytest looks for plugins, and the plugin loads nothing else of reput."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    code = (
        "import importlib, sys\n"
        f"importlib.import_module({points['reput']!r})\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in {'reput', 'numpy', 'numba'}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["reput", "reput.broker", "reput.broker.pytest_plugin"]


def test_topics_are_made_while_the_broker_runs(tmp_path: Path) -> None:
    """A topic that Python makes has its queues at once; a wrong one, or a closed broker, is an error."""
    with reput.serve(tmp_path / "store") as broker, Client(broker.address) as client:
        broker.create_topic("made", 2)
        assert client.put("made", queue_id=1).code == ResponseCode.SUCCESS
        assert bodies(client.pull("made", 1)) == [b"body"]
        with pytest.raises(reput.ConfigError, match="illegal"):
            broker.create_topic("../up")
        with pytest.raises(reput.ConfigError, match="queues"):
            broker.create_topic("made", 0)
        with pytest.raises(reput.ConfigError, match="whole numbers"):
            broker.create_topic("made", "4")  # type: ignore[arg-type]
    with pytest.raises(reput.ClosedError):
        broker.create_topic("late")
