"""docs/configuration.md has every setting under one name, and its tables are what the code says."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import reput
from reput.cli.main import cli
from reput.config import StoreConfig, rocketmq_names
from reput.connect.options import names as option_names
from support.scripts import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

configuration = load("configuration")
API = Path(__file__).parents[2] / "docs" / "api.md"

# Words of Spark's Kafka source and of RocketMQ's connectors, which `format("rocketmq")` keeps, and why each differs.
CONVENTIONS = {
    "storePath": "RocketMQ's folder, beside Spark's path",
    "subscribe": "Kafka's word for several topics",
    "assign": "Kafka's word for chosen queues, as JSON",
    "startingOffsets": "Kafka's word, offsets of all queues as JSON",
    "endingOffsets": "Kafka's word, offsets of all queues as JSON",
    "startingTimestamp": "Kafka's word",
    "endingTimestamp": "Kafka's word; the time itself is excluded",
    "maxOffsetsPerTrigger": "Spark's word, for a micro-batch",
    "filter.tag": "the RocketMQ connector's word",
    "filter.sql": "the RocketMQ connector's word",
    "subExpression": "RocketMQ's word",
    "readReport": "an option of a read, not of the call",
    "--set": "one setting of a configuration",
    "STORE": "the positional argument",
    "OTHER": "the positional argument",
}


def test_the_page_is_up_to_date() -> None:
    """The tables are those that the script makes of the code."""
    page = Path(configuration.PAGE).read_text("utf-8")
    assert configuration.renewed(page) == page, "out of date: make docs"


def test_every_setting_has_a_name_and_a_meaning() -> None:
    """Each field of StoreConfig has RocketMQ's name and a row with its meaning."""
    names = {field.name for field in fields(StoreConfig)} - {"sources"}
    assert set(rocketmq_names()) == names
    rows = configuration.tables().split("\n## ")[0].splitlines()[2:]
    assert len(rows) == len(names)
    assert all(row.split(" | ")[-1].removesuffix(" |") for row in rows)


def names_in(column: str) -> Counter[str]:
    """Each name of a column, with the number of rows that have it."""
    return Counter(name for one in configuration.ARGUMENTS for name in getattr(one, column).split(", ") if name)


def public_calls() -> Iterator[tuple[str, Callable[..., object]]]:
    """Each public function, each method of a store that the API page shows, and the making of a message."""
    yield "Message", reput.Message
    yield from ((name, call) for name in reput.__all__ if inspect.isfunction(call := getattr(reput, name)))
    hidden = re.findall(r'"!\^(\w+)\$"', API.read_text("utf-8"))
    for name in dir(reput.MessageStore):
        call = getattr(reput.MessageStore, name)
        if not name.startswith("_") and name not in hidden and callable(call):
            yield f"MessageStore.{name}", call


def commands(group: click.Group = cli) -> Iterator[click.Command]:
    """Each command of the command line, those of `dump` too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command) if isinstance(command, click.Group) else (command,)


@pytest.mark.parametrize(("name", "call"), [*public_calls()], ids=lambda one: one if isinstance(one, str) else "")
def test_every_argument_of_a_call_has_one_row(name: str, call: Callable[..., object]) -> None:
    """Each argument of a public call is in one row of the tables."""
    parameters = inspect.signature(call).parameters.values()
    arguments = {one.name for one in parameters if one.name != "self" and one.kind is not one.VAR_KEYWORD}
    rows = names_in("python")
    assert {argument: rows[argument] for argument in arguments} == dict.fromkeys(arguments, 1)


@pytest.mark.parametrize("command", [*commands()], ids=lambda command: str(command.name))
def test_every_option_of_a_command_has_one_row(command: click.Command) -> None:
    """Each option of a command is in one row of the tables."""
    options = {max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)}
    rows = names_in("cli")
    assert {option: rows[option] for option in options} == dict.fromkeys(options, 1)


def test_every_row_is_of_something() -> None:
    """Each name in a row is one of a public call, of a command, or of the data source."""
    arguments = {name for _, call in public_calls() for name in inspect.signature(call).parameters}
    options = {max(one.opts, key=len) for command in commands() for one in command.params}
    assert {*names_in("python")} - arguments == set()
    assert {*names_in("cli")} - options - {"STORE", "OTHER"} == set()
    assert {*names_in("spark")} <= {*option_names.READ, *option_names.WRITE}


def word_of(name: str) -> str:
    """A name without what Python, the command line and Spark write differently: capitals, dashes, plural, unit."""
    snake = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name.removeprefix("--").replace("-", "_"))
    snake = re.sub(r"ies$", "y", snake)
    return re.sub(r"_ms$", "", snake) if snake.endswith("_ms") else snake.removesuffix("s")


@pytest.mark.parametrize("row", configuration.ARGUMENTS, ids=lambda row: row.python or row.cli)
def test_a_setting_has_one_name(row: tuple[str, ...]) -> None:
    """A setting has the same word in Python, on the command line and for Spark, but for words of a convention."""
    names = [name for column in row[:3] for name in column.split(", ") if name and name not in CONVENTIONS]
    if names != ["from_group", "to_group"]:
        assert len({word_of(name) for name in names}) <= 1, names


def test_conventions_are_needed() -> None:
    """An exception that no row needs any more leaves the list."""
    assert not {*CONVENTIONS} - {*names_in("cli"), *names_in("spark")}
