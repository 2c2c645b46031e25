"""The plan of a filter: a tree with the same results, which takes fewer steps."""

from __future__ import annotations

from collections.abc import Iterable

from reput.dispatch.sql.tree import And, Equal, In, Literal, Node, Not, Or, Property


def plan_of(node: Node) -> Node:
    """Return the tree with one look-up in a set for all texts to which a property is equal in parts of an OR."""
    match node:
        case Or(parts):
            joined = tuple(_joined(map(plan_of, parts)))
            return joined[0] if len(joined) == 1 else Or(joined)
        case And(parts):
            return And(tuple(map(plan_of, parts)))
        case Not(value):
            return Not(plan_of(value))
    return node


def _joined(parts: Iterable[Node]) -> list[Node]:
    """Return the parts of an OR, with neighbours that are look-ups joined by property.

    Look-ups always have an answer, so their order does not matter. Another part may end the evaluation.
    """
    joined: list[Node] = []
    neighbours: dict[Property, int] = {}
    for part in parts:
        found = _look_up(part)
        if found is None:
            neighbours = {}
            joined.append(part)
            continue
        at = neighbours.setdefault(found.value, len(joined))
        if at == len(joined):
            joined.append(part)
            continue
        before = _look_up(joined[at])
        assert before is not None
        joined[at] = In(found.value, before.texts | found.texts, negated=False)
    return joined


def _look_up(part: Node) -> In | None:
    """Return a condition that asks if a property is one of some texts; None if it asks something else."""
    match part:
        case Equal(Property() as value, Literal(str(text))):
            return In(value, frozenset((text,)), negated=False)
        case In(_, _, False):
            return part
    return None
