"""A group of verbs that suggests the nearest one for a mistyped verb."""

from __future__ import annotations

import difflib

import click

from reput.cli.shared.renamed import with_present_names


class VerbGroup(click.Group):
    """A click group whose error about an unknown verb names a similar one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that the first argument names.

        Raises:
            click.UsageError: There is no such verb; the message names the nearest, or an example.
        """
        name, verbs = args[0], self.list_commands(ctx)
        if name not in verbs and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {name!r}. {_hint(ctx, name, verbs)}", ctx)
        found, command, rest = super().resolve_command(ctx, args)
        if found is not None and command is not None and not ctx.resilient_parsing:
            rest = with_present_names(found, command, rest)
        return found, command, rest


def _hint(ctx: click.Context, name: str, verbs: list[str]) -> str:
    if similar := difflib.get_close_matches(name, verbs, 3):
        return f"Did you mean {' or '.join(similar)}?"
    if "/" in name or name == ".":
        return f"The command comes first: {ctx.command_path} {verbs[0]} {name}"
    return f"`{ctx.command_path} --help` lists the commands"
