"""Options that had another name: the old name still works for one version, with a warning on stderr.

A short option means one thing in all commands. Where it meant another thing, only the long name is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import click

from reput.cli.shared import output


class RenamedOption(NamedTuple):
    """An option's old name, the text that the warning gives in its place, and the words that replace it.

    `words` makes the new words from the option's value; None for an option without a value.
    """

    old: str
    new: str
    words: Callable[[str], Sequence[str]] | None


def _option(old: str, new: str) -> RenamedOption:
    return RenamedOption(old, new, lambda value: (new, value))


def _flag(old: str, new: str) -> RenamedOption:
    return RenamedOption(old, new, None)


def _engine(value: str) -> Sequence[str]:
    words = {"auto": (), "loop": ("--no-spark",), "spark": ("--spark",)}
    return words.get(value, ("--engine", value))


def _bytes_of_mib(value: str) -> Sequence[str]:
    try:
        size = int(float(value) * (1 << 20))
        # What is no size above 0 is refused by the present option.
        return "--max-bytes-per-trigger", str(max(1, size) if float(value) > 0 else size)
    except (OverflowError, ValueError):
        return "--max-bytes-per-trigger", value


_ENGINE = RenamedOption("--engine", "--spark or --no-spark", _engine)
_SPLIT = _option("--splits-mb", "--split-mb")
_QUIET = _flag("-q", "--quiet")
_QUEUE = _option("--queue", "--queue-id")
_COUNT = _option("--count", "--max-messages")
RENAMED: dict[str, tuple[RenamedOption, ...]] = {
    "check": (_ENGINE, _SPLIT, _QUIET),
    "rebuild": (_ENGINE, _SPLIT, _QUIET),
    "convert": (_ENGINE, _SPLIT, _QUIET, _option("--from", "--source")),
    "follow": (
        _ENGINE,
        _QUIET,
        RenamedOption("--max-batch-mb", "--max-bytes-per-trigger", _bytes_of_mib),
        _option("--checkpoint", "--checkpoint-location"),
    ),
    "export": (_ENGINE, _QUIET, _option("--to", "--folder")),
    "get": (_QUEUE, _COUNT, _option("--filter", "--tags")),
    "query": (
        _COUNT,
        _option("--begin", "--since"),
        _option("--end", "--until"),
        _option("--tag", "--tags"),
        _option("--physical", "--physical-offset"),
    ),
    "put": (_QUEUE, _option("--tag", "--tags"), _flag("--keep-expired", "--no-delete-expired")),
    "offset": (_QUEUE, _option("--time", "--timestamp")),
    "progress": (_QUEUE,),
    "delete": (_QUEUE,),
    "lite": (_option("--count", "--max-topics"),),
    # The verbs of `dump` and of `pending`.
    "log": (_QUEUE, _COUNT, _option("--offset", "--physical-offset"), _option("-o", "--physical-offset")),
    "queue": (_QUEUE, _COUNT),
    "index": (_COUNT, _option("--offset", "--item"), _option("-o", "--item"), _option("-f", "--file")),
    "timers": (_COUNT,),
    "transactions": (_COUNT,),
    "pop": (_COUNT,),
}
"""The renamed options of each verb."""


def with_present_names(verb: str, command: click.Command, words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the present names of its options; an old name gets a warning."""
    renamed = {one.old: one for one in RENAMED.get(verb, ())}
    return list(_replaced(renamed, command, words)) if renamed else list(words)


def _parted(word: str, renamed: dict[str, RenamedOption]) -> tuple[str, bool, str]:
    """Return an option's name, true if its value is in the same word, and that value."""
    short = renamed.get(word[:2])
    if short is not None and not word.startswith("--"):
        return (word[:2], len(word) > 2, word[2:]) if short.words else (word, False, "")
    name, joint, value = word.partition("=")
    return name, bool(joint), value


def _replaced(renamed: dict[str, RenamedOption], command: click.Command, words: Sequence[str]) -> Iterator[str]:
    values_of = {
        name: 0 if option.is_flag else option.nargs
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
    rest = iter(words)
    for word in rest:
        name, is_joined, value = _parted(word, renamed)
        if word == "--":
            yield word
            break
        if name not in renamed:
            yield word
            # The values of other options are not names of options.
            yield from (next_one for _, next_one in zip(range(values_of.get(word, 0)), rest, strict=False))
            continue
        one = renamed[name]
        output.say(f"warning: {name} is now {one.new}; the next version drops the old name")
        if one.words is None:
            yield one.new
        elif is_joined:
            yield from one.words(value)
        else:
            value_word = next(rest, None)
            # Without a value click names the option that lacks one.
            yield from (one.new,) if value_word is None else one.words(value_word)
    yield from rest
