"""Hints for the usual mistakes of people who know another SQL, or another language."""

from __future__ import annotations

import re
from collections.abc import Callable

_SEARCH = r"\b(CONTAINS|STARTSWITH|ENDSWITH)$"
_SEARCHES = "CONTAINS, STARTSWITH or ENDSWITH with a text"
_ENDS_WITH_NAME = re.compile(r"[A-Za-z0-9_$]$")
_WORDS = {"eq": "=", "ne": "<>", "gt": ">", "lt": "<", "ge": ">=", "le": "<="}


def hint(text: str, position: int) -> str:
    """Return what to write in place of the text at a position of a refused filter; empty if there is no hint."""
    before, here = text[:position].rstrip(), text[position:]
    for after, at, says in _RULES:
        found = at.match(here)
        if found and after.search(before):
            return says(found, before)
    return ""


def _quoted(found: re.Match[str], before: str) -> str:
    inside = found[2]
    if re.search(r"(?:[=<>(,]|\b(?:CONTAINS|STARTSWITH|ENDSWITH))$", before, re.IGNORECASE):
        return "texts are in single quotes: '" + inside.replace("'", "''") + "'"
    return f"texts are in single quotes, names in none: write {inside}, or '{inside}' for a text"


def _pattern(found: re.Match[str], _: str) -> str:
    negated, word, pattern = "NOT " if found[1] else "", found[2].upper(), found[3] or ""
    inside = pattern.strip("%")
    if word in {"LIKE", "ILIKE"} and inside and not set("%_") & set(inside):
        search = {
            (False, False): "",
            (False, True): "STARTSWITH",
            (True, False): "ENDSWITH",
            (True, True): "CONTAINS",
        }[pattern.startswith("%"), pattern.endswith("%")]
        if search:
            return f"there is no {word}: write {negated}{search} '{inside}'"
        return f"there is no {word}: write {'<>' if negated else '='} '{inside}'"
    return f"there is no {word}: use {negated}{_SEARCHES}"


def _after_not(found: re.Match[str], _: str) -> str:
    name, operator = found[1], found[2].upper()
    if operator in {"IN", "BETWEEN"}:
        return f"NOT binds tighter than a comparison: write {name} NOT {operator} ..., or NOT ({name} {operator} ...)"
    return f"NOT binds tighter than a comparison: write NOT ({name} {operator} ...)"


def _sign(found: re.Match[str], before: str) -> str:
    if found[0] in "-." and _ENDS_WITH_NAME.search(before):
        return "there is no arithmetic, and a name has only letters, digits, _ and $"
    return "there is no arithmetic: compare a property with a number"


def _without_name(found: re.Match[str], before: str) -> str:
    negated = "NOT " if re.search(r"\bNOT$", before, re.IGNORECASE) else ""
    return f"the property's name comes first: name {negated}{found[1].upper()} ..."


def _function(found: re.Match[str], _: str) -> str:
    return f"{found[1].upper()} is no function: write name {found[1].upper()} 'text'"


def _number_as_text(found: re.Match[str], _: str) -> str:
    return f"numbers have no quotes: write {found[1]}"


def _is(found: re.Match[str], before: str) -> str:
    return f"write {'<>' if before.upper().endswith('NOT') else '='} {found[1]}"


Says = Callable[[re.Match[str], str], str]


def _rule(at: str, says: str | Says, after: str = "") -> tuple[re.Pattern[str], re.Pattern[str], Says]:
    """Return a rule for text at the place that matches `at`, after text that matches `after`."""
    return (
        re.compile(after, re.IGNORECASE),
        re.compile(at, re.IGNORECASE),
        (lambda _found, _before: says) if isinstance(says, str) else says,
    )


_RULES = (
    _rule("", lambda _, before: f"give the condition alone, without {before.split()[0].upper()}", r"^(SELECT|WHERE)\b"),
    _rule(r"[+-]?[0-9.]+", lambda found, _: f"IN compares texts: write '{found[0]}'", r"\bIN\s*\([^()]*$"),
    _rule(r"(TRUE\b|FALSE\b|'[^']*'|[0-9.]+)", _is, r"\bIS(\s+NOT)?$"),
    _rule(r"([\w$]+)", lambda found, _: f"texts are in single quotes: '{found[1]}'", _SEARCH),
    _rule(r"\(", "the text follows without parentheses: CONTAINS 'text'", _SEARCH),
    _rule(r",", "write AND between the two bounds", r"\bBETWEEN\s+\S+$"),
    _rule(r"'", "texts are in single quotes, and a quote inside is two: 'it''s'", r"\"[^\"]*$"),
    _rule(r"=", "equal is one =", r"=$"),
    _rule(r">", "at least is >=", r"=$"),
    _rule(r"<", "at most is <=", r"=$"),
    _rule(r"([\"`])([^\"`]*)\1", _quoted),
    _rule(r"!=|NOT\s*=", "not equal is <>"),
    _rule(r"!", "not is NOT, with parentheses after it: NOT (a = 'x')"),
    _rule(r"&", "and is AND"),
    _rule(r"\|", "or is OR"),
    _rule(r"XOR\b", "there is no XOR: write (a AND NOT (b)) OR (b AND NOT (a))"),
    _rule(r"(NOT\s+)?(LIKE|ILIKE|RLIKE|REGEXP|MATCHES|GLOB|SIMILAR)\b\s*(?:'([^']*)')?", _pattern),
    _rule(r"~", f"there are no patterns: use {_SEARCHES}"),
    _rule(r"(?:NOT\s+)?(?:STARTS|ENDS)[\s_]*WITH\b", "it is one word: STARTSWITH 'text', ENDSWITH 'text'"),
    _rule(r"(CONTAINS|STARTSWITH|ENDSWITH)\b\s*\(", _function),
    _rule(r"(IN|BETWEEN|CONTAINS|STARTSWITH|ENDSWITH)\b", _without_name),
    _rule(r"NOT\s+([A-Za-z_$][\w$]*)\s*(IN\b|BETWEEN\b|>=|<=|<>|[<>=])", _after_not),
    _rule(r"(eq|ne|gt|lt|ge|le)\b", lambda found, _: f"write {_WORDS[found[1].lower()]}"),
    _rule(r"\)", "no parenthesis is open here", r"[^(,]$"),
    _rule(r"\[|'", "a list is in parentheses: IN ('a', 'b')", r"\bIN$"),
    _rule(r"'([+-]?[0-9]+(?:\.[0-9]+)?)'", _number_as_text),
    _rule(r"'", "texts are equal or not: use = or <>", r"[<>]=?$"),
    _rule(r"[-+*/%.]", _sign),
)
"""The texts that may be at the place of an error, each with its hint. The first match counts."""
