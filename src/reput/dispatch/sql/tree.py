"""The nodes of a parsed SQL92 filter. The parser makes no tree that RocketMQ would refuse.

Values are properties (text, or missing) and literals; conditions are true, false or unknown (None).

Source: the classes of `org.apache.rocketmq.filter.expression`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from reput.formats.layout import INT32_MAX, INT64_MAX, INT64_MIN


class Long(int):
    """A whole number outside Java's int. RocketMQ reads the text compared with it as a long, otherwise as an int."""


Constant = str | int | float
"""A text, or a number; whole and decimal numbers have comparison rules of their own."""

INT_MIN, INT_MAX = -INT32_MAX - 1, INT32_MAX
LONG_MIN, LONG_MAX = INT64_MIN, INT64_MAX


@dataclass(frozen=True, slots=True)
class Property:
    """A message's property, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number (int, Long, float), a boolean, or NULL (None)."""

    value: Constant | bool | None


@dataclass(frozen=True, slots=True)
class Minus:
    """The number after a minus; NULL if it is no number."""

    value: Node


@dataclass(frozen=True, slots=True)
class Cast:
    """A property alone where a condition is needed. Properties are texts, so it is never true."""

    value: Property


@dataclass(frozen=True, slots=True)
class Not:
    """NOT of a condition."""

    value: Node


@dataclass(frozen=True, slots=True)
class Or:
    """Several conditions, evaluated from left to right until one is true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class And:
    """Several conditions, evaluated from left to right until one is false."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """`=`; `<>` is its NOT, and IS NULL is `=` with NULL on the right."""

    left: Node
    right: Node


class Order(Enum):
    """The comparisons of numbers."""

    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Ordered:
    """`<`, `<=`, `>` or `>=`."""

    order: Order
    left: Node
    right: Node


class TextPlace(Enum):
    """The place of a text in another one."""

    ANYWHERE = "CONTAINS"
    START = "STARTSWITH"
    END = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Search:
    """CONTAINS, STARTSWITH or ENDSWITH. An empty text is found nowhere, and its NOT does not hold either."""

    place: TextPlace
    value: Node
    text: str
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    """IN or NOT IN a list of texts."""

    value: Property
    texts: frozenset[str]
    negated: bool


Node = Property | Literal | Minus | Cast | Not | Or | And | Equal | Ordered | Search | In

CONDITIONS = (Cast, Not, Or, And, Equal, Ordered, Search, In)
"""The nodes that are conditions; a literal TRUE, FALSE or NULL is one too."""


def is_condition(node: Node) -> bool:
    """Return True if a node is allowed where a condition is needed."""
    return isinstance(node, CONDITIONS) or (isinstance(node, Literal) and (node.value is None or is_truth(node.value)))


def is_truth(value: object) -> bool:
    """Return True if a value is TRUE or FALSE."""
    return isinstance(value, bool)


def property_names(node: Node) -> Iterator[str]:
    """Yield the names of the properties that a tree reads, in their order, perhaps more than once."""
    match node:
        case Property(name):
            yield name
        case Minus(value) | Cast(value) | Not(value) | Search(value=value) | In(value=value):
            yield from property_names(value)
        case Or(parts) | And(parts):
            for part in parts:
                yield from property_names(part)
        case Equal(left, right) | Ordered(left=left, right=right):
            yield from property_names(left)
            yield from property_names(right)


def steps(node: Node) -> int:
    """Return the number of steps of an evaluation that leaves out none: what a filter costs."""
    match node:
        case Property() | Literal():
            return 0
        case Minus(value) | Cast(value) | Not(value) | Search(value=value) | In(value=value):
            return 1 + steps(value)
        case Or(parts) | And(parts):
            return sum(map(steps, parts))
        case Equal(left, right) | Ordered(left=left, right=right):
            return 1 + steps(left) + steps(right)
