"""The grammar of RocketMQ's SQL92 filters, as a dialect of sqlglot: its tokens, and these few rules in place of SQL's.

    filter     := or                                  and it must be a condition
    or         := and (OR and)*
    and        := equality (AND equality)*
    equality   := comparison (("=" | "<>") comparison | IS [NOT] NULL)*
    comparison := unary ((">" | ">=" | "<" | "<=") unary | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text
                  | [NOT] BETWEEN unary AND unary | [NOT] IN "(" text ("," text)* ")")*
    unary      := ("+" | "-" | NOT) unary | literal | name | "(" or ")"

So NOT binds tighter than any comparison, and there is no arithmetic except the signs. What RocketMQ's parser refuses is
refused. Text after a whole filter, which RocketMQ ignores, is refused too.

Source: `SelectorParser.jj`, and the checks in `ComparisonExpression`, `ConstantExpression` and `UnaryExpression`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, NoReturn

from sqlglot import Dialect, parser, tokens
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from reput.dispatch.sql import tree
from reput.dispatch.sql.evaluate import evaluate
from reput.dispatch.sql.hints import hint
from reput.dispatch.sql.tree import INT_MAX, LONG_MAX, Long, Node, Order, TextPlace
from reput.errors import ConfigError

MAX_TEXT = 1 << 16
MAX_DEPTH = 100

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_ORDERS = {
    TokenType.LT: Order.LESS,
    TokenType.LTE: Order.LESS_EQUAL,
    TokenType.GT: Order.GREATER,
    TokenType.GTE: Order.GREATER_EQUAL,
}
_PLACES = {place.value: place for place in TextPlace}
_CONSTANTS = {TokenType.TRUE: True, TokenType.FALSE: False, TokenType.NULL: None}
_AFTER_NOT = (TokenType.BETWEEN, TokenType.IN)
_UNSEEN = "\0"


class RocketMQFilter(Dialect):
    """RocketMQ's filters: texts in single quotes, names with `$`, and only the words of the grammar."""

    class Tokenizer(tokens.Tokenizer):
        """The words of the grammar. CONTAINS and its like are names where a name is allowed."""

        QUOTES: ClassVar[list[Any]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        # There are no quoted names, but sqlglot needs a sign for them.
        IDENTIFIERS: ClassVar[list[Any]] = [_UNSEEN]
        COMMENTS: ClassVar[list[Any]] = ["--", ("/*", "*/")]
        NESTED_COMMENTS = False
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            "NOT": TokenType.NOT,
            "AND": TokenType.AND,
            "OR": TokenType.OR,
            "BETWEEN": TokenType.BETWEEN,
            "IN": TokenType.IN,
            "TRUE": TokenType.TRUE,
            "FALSE": TokenType.FALSE,
            "NULL": TokenType.NULL,
            "IS": TokenType.IS,
            "<>": TokenType.NEQ,
            ">=": TokenType.GTE,
            "<=": TokenType.LTE,
        }


class SelectorParser(parser.Parser):
    """The rules above, each as a method; `tree` and `source` are those of the last call of `read`."""

    def read(self, text: str) -> Node:
        """Return the tree of a filter.

        Raises:
            ConfigError: the text is no filter; the error says where and why.
        """
        self._depth = self._chained = 0
        # sqlglot expects its own trees from a rule. Ours are of another kind, so they are kept here.
        self._parse(lambda _: self._filter(), _tokens_of(text), text)
        return self._tree

    def _filter(self) -> None:
        first = self._curr
        self._tree = self._condition(self._or(), first)
        if self._curr:
            self._refuse("the filter ends before this: AND, OR or an operator is expected here")

    def _or(self) -> Node:
        return self._chain(TokenType.OR, self._and, tree.Or)

    def _and(self) -> Node:
        return self._chain(TokenType.AND, self._equality, tree.And)

    def _chain(
        self, joint: TokenType, part: Callable[[], Node], join: Callable[[tuple[Node, ...]], tree.Or | tree.And]
    ) -> Node:
        first = self._curr
        left = part()
        if not self._match(joint, advance=False):
            return left
        parts = [self._condition(left, first)]
        while self._match(joint):
            first = self._curr
            parts.append(self._condition(part(), first))
        return join(tuple(parts))

    def _equality(self) -> Node:
        first = self._curr
        left = self._comparison()
        for links in count():
            self._count_links(links)
            operator = self._curr
            if self._match_set((TokenType.EQ, TokenType.NEQ)):
                second = self._curr
                right = self._comparison()
                self._refuse_null(left, first)
                self._refuse_null(right, second)
                if _is_constant_truth(left) and isinstance(right, tree.Literal) and not tree.is_condition(right):
                    self._refuse("TRUE and FALSE cannot be compared with a text or a number", second)
                equal = tree.Equal(left, right)
                left = equal if operator.token_type == TokenType.EQ else tree.Not(equal)
            elif self._match(TokenType.IS):
                negated = self._match(TokenType.NOT)
                if not self._match(TokenType.NULL):
                    self._refuse("NULL or NOT NULL must follow IS")
                null = tree.Equal(left, tree.Literal(None))
                left = tree.Not(null) if negated else null
            else:
                break
        return left

    def _comparison(self) -> Node:
        first = self._curr
        left = self._unary()
        for links in count():
            self._count_links(links)
            if self._curr.token_type in _ORDERS:
                order = _ORDERS[self._curr.token_type]
                self._advance()
                left = self._ordered(order, left, first, *self._operand())
            elif self._comes_after_not():
                negated = self._match(TokenType.NOT)
                if self._match(TokenType.BETWEEN):
                    left = self._between(left, first, negated)
                elif self._match(TokenType.IN):
                    left = self._in(left, first, negated)
                else:
                    place = _PLACES[self._curr.text.upper()]
                    self._advance()
                    left = tree.Search(place, left, self._text(f"{place.value} takes"), negated)
            else:
                break
        return left

    def _count_links(self, links: int) -> None:
        """Refuse a chain of comparisons that is too long: the evaluation goes as deep as it is long."""
        self._chained += links > 1
        if self._chained > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} comparisons of comparisons: AND or OR must be between them")

    def _comes_after_not(self) -> bool:
        """Return True if BETWEEN, IN or a word like CONTAINS comes, perhaps after a NOT."""
        token = self._next if self._curr.token_type == TokenType.NOT else self._curr
        return token.token_type in _AFTER_NOT or (token.token_type == TokenType.VAR and token.text.upper() in _PLACES)

    def _operand(self) -> tuple[Node, Token]:
        first = self._curr
        return self._unary(), first

    def _ordered(self, order: Order, left: Node, first: Token, right: Node, second: Token) -> Node:
        for node, token in ((left, first), (right, second)):
            if (isinstance(node, tree.Literal) and not _is_number(node)) or isinstance(node, tree.CONDITIONS):
                self._refuse(f"{order.value} compares numbers: a property or a number is expected here", token)
        return tree.Ordered(order, left, right)

    def _between(self, left: Node, first: Token, negated: bool) -> Node:
        low, low_token = self._operand()
        if not self._match(TokenType.AND):
            self._refuse("AND and an upper bound must follow BETWEEN's lower one")
        high, high_token = self._operand()
        if negated:
            below = self._ordered(Order.LESS, left, first, low, low_token)
            return tree.Or((below, self._ordered(Order.GREATER, left, first, high, high_token)))
        above = self._ordered(Order.GREATER_EQUAL, left, first, low, low_token)
        both = tree.And((above, self._ordered(Order.LESS_EQUAL, left, first, high, high_token)))
        are_literals = isinstance(low, tree.Literal) and isinstance(high, tree.Literal)
        if are_literals and evaluate(tree.Ordered(Order.GREATER, low, high), {}):
            self._refuse("BETWEEN's upper bound is below its lower one", high_token)
        return both

    def _in(self, left: Node, first: Token, negated: bool) -> Node:
        if not isinstance(left, tree.Property):
            self._refuse("IN asks for a property: its name is expected here", first)
        if not self._match(TokenType.L_PAREN):
            self._refuse("a list of texts in parentheses must follow IN")
        texts = [self._text("the list after IN has")]
        while self._match(TokenType.COMMA):
            texts.append(self._text("the list after IN has"))
        if not self._match(TokenType.R_PAREN):
            self._refuse("the list after IN is not closed: , or ) is missing")
        return tree.In(left, frozenset(texts), negated)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} parentheses and signs inside one another")
        try:
            if self._match(TokenType.PLUS):
                return self._unary()
            if self._match(TokenType.DASH):
                return tree.Minus(self._unary())
            if self._match(TokenType.NOT):
                first = self._curr
                return tree.Not(self._condition(self._unary(), first))
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Node:
        token = self._curr
        if not token:
            self._refuse("something must follow here: a name, a literal or a parenthesis")
        if self._match(TokenType.L_PAREN):
            inside = self._or()
            if not self._match(TokenType.R_PAREN):
                self._refuse("a parenthesis is not closed: ) is missing")
            return inside
        if token.token_type in _CONSTANTS:
            self._advance()
            return tree.Literal(_CONSTANTS[token.token_type])
        if token.token_type == TokenType.STRING:
            self._advance()
            return tree.Literal(token.text)
        if token.token_type in (TokenType.NUMBER, TokenType.DOT):
            return tree.Literal(self._number())
        if token.token_type == TokenType.VAR and _NAME.fullmatch(token.text) and token.text.upper() not in _PLACES:
            self._advance()
            if self._curr.token_type == TokenType.L_PAREN:
                self._refuse(f"there are no functions in a filter, so no {token.text}(...)", token)
            return tree.Property(token.text)
        raise refusal(self.sql, token.start, "a name, a literal or a parenthesis is expected here")

    def _number(self) -> int | float:
        token = self._curr
        image = token.text
        self._advance()
        # sqlglot takes the point before .5 and the L after 5L for tokens of their own.
        if token.token_type == TokenType.DOT and self._curr.token_type == TokenType.NUMBER and self._is_connected():
            image += self._curr.text
            self._advance()
        if _DECIMAL.fullmatch(image):
            value = float(image)
            if value == float("inf") or value == 0:
                self._refuse("a filter takes no 0.0, and no numbers that no double can hold; write 0 for zero", token)
            return value
        if not _WHOLE.fullmatch(image):
            self._refuse("this is not a number", token)
        if self._curr.token_type == TokenType.VAR and self._curr.text in ("l", "L") and self._is_connected():
            if image == "0":
                self._refuse("write 0 without an L")
            self._advance()
        if len(image) > len(str(LONG_MAX)) or int(image) > LONG_MAX:
            self._refuse(f"whole numbers go to {LONG_MAX}", token)
        return int(image) if int(image) <= INT_MAX else Long(image)

    def _text(self, who: str) -> str:
        token = self._curr
        if not self._match(TokenType.STRING):
            self._refuse(f"{who} texts in single quotes: one is expected here")
        return str(token.text)

    def _condition(self, node: Node, first: Token) -> Node:
        if isinstance(node, tree.Property):
            return tree.Cast(node)
        if not tree.is_condition(node):
            self._refuse("a condition, which can be true or false, is expected here", first)
        return node

    def _refuse_null(self, node: Node, token: Token) -> None:
        if isinstance(node, tree.Literal) and node.value is None:
            self._refuse("nothing is equal to NULL: ask with IS NULL", token)

    def _refuse(self, why: str, token: Token | None = None) -> NoReturn:
        token = token or self._curr
        raise refusal(self.sql, token.start if token else len(self.sql), why)


def parse(text: str) -> Node:
    """Return the tree of a filter.

    Raises:
        ConfigError: the text is no filter; the error says where and why.
    """
    return SelectorParser(dialect=RocketMQFilter).read(text)


def refusal(text: str, position: int, why: str) -> ConfigError:
    """Return the error for a text that is no filter; `position` counts from 0."""
    shown = text[position : position + 20]
    instead = hint(text, position)
    return ConfigError(
        f"SQL92 filter, at character {position + 1} ({f'{shown!r}' if shown else 'its end'}): {why}"
        + (f". Hint: {instead}" if instead else "")
    )


def _tokens_of(text: str) -> list[Token]:
    if len(text) > MAX_TEXT:
        raise ConfigError(f"SQL92 filter: {len(text)} characters, {MAX_TEXT} are allowed")
    if _UNSEEN in text:
        raise refusal(text, text.index(_UNSEEN), "no filter holds this character")
    try:
        found: list[Token] = RocketMQFilter().tokenize(text)
    except (TokenError, ParseError) as error:
        raise refusal(text, _last_quote(text), "a text is not closed: ' is missing") from error
    for token in found:
        if token.token_type == TokenType.NOT and token.text == "!":
            raise refusal(text, token.start, "a filter has no such sign")
        if token.token_type == TokenType.SEMICOLON:
            raise refusal(text, token.start, "a filter is one condition, without a semicolon")
    if not found:
        raise ConfigError("SQL92 filter: it is empty; give a condition such as amount > 100 AND region = 'eu'")
    return found


def _last_quote(text: str) -> int:
    return max(text.rfind("'"), 0)


def _is_number(node: tree.Literal) -> bool:
    return isinstance(node.value, (int, float)) and not tree.is_truth(node.value)


def _is_constant_truth(node: Node) -> bool:
    return isinstance(node, tree.Literal) and tree.is_truth(node.value)
