"""SQL92 filters as RocketMQ has them: `amount > 100 AND region = 'eu'`, asked of a message's properties.

    wanted = compile("amount > 100 AND region IN ('eu', 'us')")
    wanted.matches({"amount": "250", "region": "eu"})      True; None where it is unknown
    wanted.select(RawProperties(data, at, size))           a bool array, for many messages at once

A property is text. Beside a whole number it is read as one (`12.5` then is none), beside a decimal number as a double;
where that fails, or RocketMQ's evaluation throws for another reason, the message does not match.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reput.dispatch.sql.evaluate import NoAnswerError, evaluate
from reput.dispatch.sql.tree import Node, property_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.dispatch.sql.columns import PropertyColumns


_AT_ONCE = 1 << 14
"""Messages whose columns are looked at together: what one step leaves in the processor's cache the next one finds."""


class CompiledFilter:
    """A filter that was parsed once; safe for threads, and small enough to be sent to a task.

    `text` is the filter as it was written, `tree` what it was parsed to, `names` the properties that it looks at.
    """

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self.tree = tree

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties that it looks at, each once."""
        return tuple(dict.fromkeys(property_names(self.tree)))

    def matches(self, properties: Mapping[str, Any]) -> bool | None:
        """Whether a message with these properties matches; None where that is unknown, which RocketMQ takes for no.

        Values are texts, as all properties of messages are; ints, floats and booleans count as Java's own.
        """
        try:
            truth: bool | None = evaluate(self.tree, properties)
        except NoAnswerError:
            return None
        return truth

    def select(self, columns: PropertyColumns) -> NDArray[np.bool_]:
        """Which messages match (bool, one a message): those for which `matches` is True."""
        import numpy as np

        from reput.dispatch.sql.select import TRUE, select_codes

        pieces = [columns.piece(begin, begin + _AT_ONCE) for begin in range(0, len(columns), _AT_ONCE)]
        found = np.empty(len(columns), dtype=np.bool_)
        for number, piece in enumerate(pieces):
            begin = number * _AT_ONCE
            found[begin : begin + len(piece)] = select_codes(self.tree, piece) == TRUE
        return found

    def __repr__(self) -> str:
        return f"CompiledFilter({self.text!r})"


def compile(text: str) -> CompiledFilter:  # noqa: A001 - as a module's own verb, like re.compile
    """The filter that a text is.

    Raises:
        ConfigError: it is none; where, and why.
    """
    from reput.dispatch.sql.grammar import parse

    return CompiledFilter(text, parse(text))
