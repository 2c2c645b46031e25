"""SQL92 filters as RocketMQ has them: `amount > 100 AND region = 'eu'`, evaluated on a message's properties.

    wanted = compile("amount > 100 AND region IN ('eu', 'us')")
    wanted.matches({"amount": "250", "region": "eu"})      True; None if it is unknown
    wanted.select(RawProperties(data, at, size))           a bool array, for many messages at once

A property is text. Compared with a whole number it is read as one (`12.5` is no whole number), with a decimal number
as a double. If that fails, or RocketMQ's evaluation throws for another reason, the message does not match.

May import kernels and formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reput.dispatch.sql.evaluate import NoAnswerError, evaluate
from reput.dispatch.sql.tree import Node, property_names, steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.dispatch.sql.columns import PropertyColumns


_AT_ONCE = 1 << 14
"""The number of messages whose columns are evaluated together: a step finds what the previous one left in the cache."""

_ROW_COST, _STEP_COST, _COLUMN_COST = 8, 3, 50
"""Times (us): the properties of a message as texts, a step of its evaluation, and a step for a column."""


class CompiledFilter:
    """A parsed filter; safe for threads, and small enough to be sent to a task.

    Attributes:
        text: the filter as it was written.
        tree: the filter as it was parsed.
    """

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self.tree = tree

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties that it reads, each once."""
        return tuple(dict.fromkeys(property_names(self.tree)))

    @cached_property
    def plan(self) -> Node:
        """The tree that is evaluated: the same results in fewer steps."""
        from reput.dispatch.sql.plan import plan_of

        return plan_of(self.tree)

    @cached_property
    def steps(self) -> int:
        """The steps of an evaluation: what it costs for a message."""
        return max(1, steps(self.plan))

    def matches(self, properties: Mapping[str, Any]) -> bool | None:
        """Return True if a message with these properties matches; None if that is unknown, which RocketMQ takes for no.

        Values are texts, as all properties of messages are. Ints, floats and booleans count as Java's own.
        """
        try:
            truth: bool | None = evaluate(self.plan, properties)
        except NoAnswerError:
            return None
        return truth

    def select(self, columns: PropertyColumns) -> NDArray[np.bool_]:
        """Return which messages match (bool, one for each message): those for which `matches` is True."""
        import numpy as np

        from reput.dispatch.sql.columns import property_rows
        from reput.dispatch.sql.select import TRUE, select_codes

        if len(columns) * (_ROW_COST + _STEP_COST * self.steps) < _COLUMN_COST * self.steps:
            return np.array([bool(self.matches(row)) for row in property_rows(columns, self.names)], dtype=np.bool_)
        pieces = [columns.piece(begin, begin + _AT_ONCE) for begin in range(0, len(columns), _AT_ONCE)]
        found = np.empty(len(columns), dtype=np.bool_)
        for number, piece in enumerate(pieces):
            begin = number * _AT_ONCE
            found[begin : begin + len(piece)] = select_codes(self.plan, piece) == TRUE
        return found

    def __repr__(self) -> str:
        return f"CompiledFilter({self.text!r})"


def compile(text: str) -> CompiledFilter:  # noqa: A001 - as a module's own verb, like re.compile
    """Parse a filter.

    Raises:
        ConfigError: the text is no filter; the error says where and why.
    """
    from reput.dispatch.sql.grammar import parse

    return CompiledFilter(text, parse(text))
