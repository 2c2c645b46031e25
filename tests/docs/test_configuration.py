"""docs/configuration.md has every setting, and its tables are what the code says."""

from __future__ import annotations

import inspect
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import reput
from reput.config import StoreConfig, rocketmq_names
from reput.connect.options import names as option_names
from support.scripts import load

configuration = load("configuration")
CALLS = ("info", "check", "rebuild", "convert", "diff", "follow", "export", "scan")


def test_the_page_is_up_to_date() -> None:
    """The tables are those that the script makes of the code."""
    page = Path(configuration.PAGE).read_text("utf-8")
    assert configuration.renewed(page) == page, "out of date: make docs"


def test_every_setting_has_a_name_and_a_meaning() -> None:
    """Each field of StoreConfig has RocketMQ's name and a row with its meaning."""
    told = {field.name for field in fields(StoreConfig)} - {"sources"}
    assert set(rocketmq_names()) == told
    rows = configuration.tables().split("\n## ")[0].splitlines()[2:]
    assert len(rows) == len(told)
    assert all(row.split(" | ")[-1].removesuffix(" |") for row in rows)


def _said(column: str) -> set[str]:
    return {name for one in configuration.ARGUMENTS for name in getattr(one, column).split(", ") if name}


@pytest.mark.parametrize("call", [*CALLS, "MessageStore.open"])
def test_every_argument_of_a_call_is_in_it(call: str) -> None:
    """Each argument of a call on a store has a row."""
    function = reput.MessageStore.open if call == "MessageStore.open" else getattr(reput, call)
    assert set(inspect.signature(function).parameters) <= _said("python")


@pytest.mark.parametrize("verb", ["check", "rebuild", "convert", "diff", "follow", "export"])
def test_every_option_of_a_job_is_in_it(verb: str) -> None:
    """Each option of a command that runs a job has a row."""
    command = getattr(import_module(f"reput.cli.{verb}"), verb)
    options = {max(one.opts, key=len) for one in command.params if one.opts[0].startswith("-")}
    assert options <= _said("cli")


def test_names_of_spark_are_options() -> None:
    """What the table names for Spark are options of the data source."""
    assert _said("spark") <= {*option_names.READ, *option_names.WRITE}
