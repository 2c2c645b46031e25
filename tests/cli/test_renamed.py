"""Options that had another name: the old one works, with one line on stderr, and no help shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from reput.cli.main import cli, run
from reput.cli.shared.renamed import RENAMED, RenamedOption, with_present_names
from support import golden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVERY = [(verb, one) for verb, options in RENAMED.items() for one in options]


def command_of(verb: str, group: click.Group = cli) -> click.Command:
    """The command of that name, or that verb of a group of verbs."""
    context = click.Context(group)
    if verb in group.list_commands(context):
        command = group.get_command(context, verb)
        assert command is not None
        return command
    inner = [group.get_command(context, name) for name in group.list_commands(context)]
    (found,) = [one for one in inner if isinstance(one, click.Group) and verb in one.list_commands(context)]
    return command_of(verb, found)


@pytest.mark.parametrize(("verb", "one"), EVERY, ids=lambda one: one if isinstance(one, str) else one.old)
def test_each_becomes_options_that_are_there(verb: str, one: RenamedOption, capsys: pytest.CaptureFixture[str]) -> None:
    """An old option, with its value apart or joined, becomes the present one, which the command has."""
    command = command_of(verb)
    present = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert one.old not in present
    values = {"--engine": "loop"}
    value = [] if one.words is None else [values.get(one.old, "7")]
    apart = with_present_names(verb, command, [one.old, *value, "store"])
    joined = with_present_names(
        verb, command, [("=" if one.old.startswith("--") else "").join([one.old, *value]), "store"]
    )
    assert apart == joined
    assert apart[0] in present
    assert apart[-1] == "store"
    assert capsys.readouterr().err.count(f"warning: {one.old} is now {one.new}; the next version drops") == 2


def options_of(command: click.Command) -> Iterator[click.Option]:
    """The options of a command, and of the verbs of a group."""
    yield from (option for option in command.params if isinstance(option, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from options_of(command_of(name, command))


def test_a_short_option_means_one_thing() -> None:
    """A short option is short for one long name in all commands; `-c` is the most of whatever a command lists."""
    longs: dict[str, set[str]] = {}
    for option in options_of(cli):
        names = {"--max-..." if name.startswith("--max-") else name for name in option.opts if name.startswith("--")}
        for short in (name for name in option.opts if not name.startswith("--") and name.startswith("-")):
            longs.setdefault(short, set()).update(names)
    assert longs["-o"] == {"--offset"}
    assert longs["-q"] == {"--queue-id"}
    assert not {short: names for short, names in longs.items() if len(names) != 1}


def test_values_and_arguments_are_left_alone() -> None:
    """A value that looks like an old option, and what comes after `--`, stay as they are."""
    words = ["store", "-t", "--filter", "--sql", "--filter", "--", "--filter"]
    assert with_present_names("get", command_of("get"), words) == words


@pytest.mark.parametrize(("engine", "words"), [("auto", []), ("loop", ["--no-spark"]), ("spark", ["--spark"])])
def test_engines_are_spark_or_none(engine: str, words: list[str]) -> None:
    """Each value of `--engine` is `--spark`, `--no-spark` or neither."""
    assert with_present_names("check", command_of("check"), ["--engine", engine]) == words


def test_mib_become_bytes() -> None:
    """`--max-batch-mb` counted MiB, and `--max-bytes-per-trigger` counts bytes."""
    found = with_present_names("follow", command_of("follow"), ["--max-batch-mb", "0.5"])
    assert found == ["--max-bytes-per-trigger", "524288"]


def test_a_command_with_old_names_does_its_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check and an export with the old names end well, and say on stderr what to write instead."""
    store = str(golden.unpack("basic", tmp_path))
    assert run(["check", store, "--engine", "loop", "--splits-mb=1", "--quiet"]) == 0
    assert run(["export", store, "--no-spark", "--to", str(tmp_path / "out"), "--quiet"]) == 0
    said = capsys.readouterr().err
    assert "--splits-mb is now --split-mb" in said
    assert "--to is now --folder" in said
    for words in (["dump", "log"], ["dump", "queue"], ["dump", "index"], ["pending", "timers"]):
        code, lines = [], []
        for name in ("--max-messages", "--count"):
            code.append(run([*words, store, name, "2"]))
            shown = capsys.readouterr()
            lines.append(shown.out)
            assert ("--count is now --max-messages" in shown.err) == (name == "--count")
        assert code == [0, 0]
        assert lines[0] == lines[1]
    assert (tmp_path / "out").is_dir()


def test_an_old_name_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An old option at the end of the line lacks its value: exit code 2, with the present name."""
    assert run(["get", "store", "-t", "orders", "--count"]) == 2
    assert "--max-messages" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-3", "nan", "x"])
def test_an_old_size_that_is_none_is_refused(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value that the old `--max-batch-mb` refused is refused by the present option."""
    assert run(["follow", str(tmp_path), "--max-batch-mb", size]) == 2
    assert "--max-bytes-per-trigger" in capsys.readouterr().err
