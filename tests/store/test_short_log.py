"""A closed store whose log has lost its end: reads give what is left, and report it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.formats import paths
from support import golden
from support.checked import assert_sound
from support.opened import forget_known_good, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SMALL = "mappedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=200\nmaxHashSlotNum=16\nmaxIndexNum=8\n"


class Made(NamedTuple):
    """A closed store, its broker.conf, and a topic of it."""

    path: Path
    broker_conf: Path
    topic: str

    @property
    def config(self) -> StoreConfig:
        """The settings."""
        return StoreConfig.from_file(self.broker_conf)


def of_reput(tmp_path: Path) -> Made:
    """A store that reput closed: its own files know the log's end."""
    made = Made(tmp_path / "store", tmp_path / "broker.conf", "t")
    made.broker_conf.write_text(_SMALL)
    with reput.MessageStore.open(made.path, made.config, create=True) as store:
        put(store, 200, keys="k")
    return made


def of_strangers(tmp_path: Path) -> Made:
    """The same, and nothing but its queues knows the end."""
    made = of_reput(tmp_path)
    forget_known_good(made.path)
    return made


def of_a_broker(tmp_path: Path) -> Made:
    """A store that RocketMQ closed."""
    (tmp_path / "broker.conf").write_text(golden.CONFIG)
    return Made(golden.unpack("basic", tmp_path), tmp_path / "broker.conf", "orders")


MAKERS = [of_reput, of_strangers, pytest.param(of_a_broker, marks=pytest.mark.golden)]


def shorten(made: Made) -> None:
    """Remove the log's last file; it has messages of the topic."""
    path, config, topic = made.path, made.config, made.topic
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert not store.damage
        before = len(list(store.messages(topic)))
    max((path / paths.COMMIT_LOG).iterdir()).unlink()
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert 0 < len(list(store.messages(topic))) < before


@pytest.mark.parametrize("make", MAKERS)
def test_a_reader_of_a_log_without_its_end_was_silent(make: Callable[[Path], Made], tmp_path: Path) -> None:
    """`damage` has one sentence on it, commands say it and exit with 1, and a salvage ends that."""
    made = make(tmp_path)
    shorten(made)
    with reput.MessageStore.open(made.path, made.config, read_only=True) as store:
        list(store.messages(made.topic))
        (found,) = [text for text in store.damage if "its end is lost" in text]
    assert found.startswith("the log ends at ")
    assert "reput rebuild --salvage" in found
    for verb, more in (("get", []), ("offset", []), ("query", ["--key", "k"])):
        words = [verb, str(made.path), "-t", made.topic, *more, "--config", str(made.broker_conf)]
        result = CliRunner().invoke(cli, words, standalone_mode=False)
        assert result.return_value == 1, result.output
        assert f"damage: {found}" in result.stderr
    reput.rebuild(made.path, config=made.config, spark=False, salvage=True)
    with reput.MessageStore.open(made.path, made.config, read_only=True) as store:
        assert not store.damage
    assert_sound(made.path, made.config)


@pytest.mark.parametrize("make", MAKERS)
def test_a_scan_and_an_export_of_such_a_log_were_silent(
    make: Callable[[Path], Made], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A scan warns, and an export takes what is there and exits with 1, but for a salvage."""
    made = make(tmp_path)
    shorten(made)
    with caplog.at_level(logging.WARNING, "reput.connect"):
        reput.scan(made.path, columns="topic", config=made.config).read_all()
    assert "its end is lost" in caplog.text
    words = ["export", str(made.path), "--folder", str(tmp_path / "out"), "--json", "--config", str(made.broker_conf)]
    for options, code in (([], 1), (["--salvage"], 0)):
        result = CliRunner().invoke(cli, [*words, *options], standalone_mode=False)
        assert result.return_value == code, result.output
        report = json.loads(result.stdout)
        assert report["ok"] is (code == 0)
        assert report["messages"] + report["messages_before"] > 0
        assert f"damage: {report['lost_end']}" in result.stderr


@pytest.mark.parametrize("make", MAKERS)
def test_a_log_whose_end_is_there_has_lost_nothing(make: Callable[[Path], Made], tmp_path: Path) -> None:
    """A store as it was closed has no damage."""
    made = make(tmp_path)
    assert not reput.export(made.path, tmp_path / "out", config=made.config, spark=False).lost_end
    with reput.MessageStore.open(made.path, made.config, read_only=True) as store:
        assert not store.damage
