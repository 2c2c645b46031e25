"""One home: names of properties, bytes of numbers, the search by halves, names of classes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from reput.formats.log import properties, property_names
from tidy.source import dotted, modules, name_of, parsed, room_of, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

PROPERTY_HOMES = ("formats/log/properties.py", "formats/log/property_names.py")
"""The modules that spell the names of properties, as bytes and as text."""
PROPERTY_NAMES = {
    value if isinstance(value, str) else value.decode()
    for home in (properties, property_names)
    for name, value in vars(home).items()
    if name.isupper() and isinstance(value, str | bytes) and not name.endswith(("_END", "_SEPARATOR"))
}
NO_PROPERTY = {
    "broker/state/attributes.py": {"DELAY"},  # a kind of topic
}


def property_literals(tree: ast.Module) -> set[str]:
    """The names of properties that a module spells itself, or decodes."""
    found = set()
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            found.add(node.value if isinstance(node.value, str) else node.value.decode("latin-1"))
        elif isinstance(node, ast.Call) and dotted(node.func).startswith(("props.", "properties.")):
            found |= {dotted(node.func).split(".")[1]} if dotted(node.func).endswith(".decode") else set()
    return found & PROPERTY_NAMES


def test_names_of_properties_have_one_home() -> None:
    """Modules take the names of properties from `formats`, as bytes or as text."""
    found = {
        name_of(path): property_literals(parsed(path)) for path in modules() if name_of(path) not in PROPERTY_HOMES
    }
    assert {name: literals for name, literals in found.items() if literals} == NO_PROPERTY


def test_names_of_properties_are_seen() -> None:
    """The rule above finds text, bytes and a name that is decoded, and lets other words pass."""
    assert property_literals(ast.parse("a = 'TAGS', b'KEYS', props.DELAY.decode(), 'tags', f'TAGS={1}'")) == {
        "TAGS",
        "KEYS",
        "DELAY",
    }


LAYOUT_CODE = re.compile(r"[<>](?:\d*[a-zA-Z?]\d*)+")
LAYOUTS_EXCEPT = {
    "files/watermarks.py": "a mapped page of words that are all alike",
    "index/files.py": "words of an IndexFile whose parts are not known yet",
}
"""Modules that may write a number's place or size as a code all the same, and why."""


def layout_codes(tree: ast.Module) -> list[str]:
    """The codes of `struct` and numpy, with a byte order, that a module spells itself."""
    texts = [node.value for node in walked(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if LAYOUT_CODE.fullmatch(text)]


def test_layouts_have_one_home() -> None:
    """No module outside formats spells the bytes of a number: sizes, offsets and byte order come from a `Layout`."""
    found = {name_of(path) for path in modules() if room_of(path) != "formats" and layout_codes(parsed(path))}
    assert found == LAYOUTS_EXCEPT.keys()


def test_codes_of_layouts_are_seen() -> None:
    """The rule above knows codes from other texts."""
    line = "a = struct.Struct('>ii'), b.view('>i8'), np.dtype('<u4'), f'>{x}', '<=', '<html>', '> 5', 'i8', '>4sHI'"
    assert sorted(layout_codes(ast.parse(line))) == ["<u4", ">4sHI", ">i8", ">ii"]


def test_no_byte_of_a_field_is_computed_by_hand() -> None:
    """The byte of a field in a record of words comes from `word_address`, `word` and `set_word`."""
    by_hand = re.compile(r"\b8 \* \w+At\.|At\.\w+ \* 8\b")
    assert by_hand.search("batch + 8 * BatchAt.body")
    assert not [name_of(path) for path in modules() if by_hand.search(path.read_text())]


HALVING_EXCEPT = {
    "halving.py": "has the search",
    "kernels/compiled/lookup.py": "numba compiles the loop, which keeps the times of its first steps",
    "kernels/compiled/many.py": "takes one step of each of many searches at once",
    "kernels/reference/lookup.py": "ends in the middle of a search with the number of a file to map",
}
"""Modules that may search by halves themselves, and why."""


def halvings(tree: ast.Module) -> list[str]:
    """The middles that a module computes, and its calls of `bisect` over something else than a sequence of values."""
    found = []
    for node in walked(tree):
        is_half = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.RShift)
        if is_half and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add):
            found += [ast.unparse(node)] if ast.unparse(node.right) in ("1", "2") else []
        if (
            isinstance(node, ast.Call)
            and "bisect" in dotted(node.func)
            and any(one.arg == "key" for one in node.keywords)
        ):
            found.append(ast.unparse(node))
    return found


def test_the_search_by_halves_has_one_home() -> None:
    """Modules search by halves with `halving`; those that cannot are listed with their reason."""
    assert {name_of(path) for path in modules() if halvings(parsed(path))} == HALVING_EXCEPT.keys()


def test_halvings_are_seen() -> None:
    """The rule above finds a middle and a search with a key, and lets other halves and searches pass."""
    line = "a = (low + high) // 2, x // 2, (p + q) >> 1, (p + q) // 3, bisect_left(n, 1), bisect_left(n, 1, key=f)"
    assert sorted(halvings(ast.parse(line))) == ["(low + high) // 2", "bisect_left(n, 1, key=f)", "p + q >> 1"]


def test_a_class_name_is_one_thing() -> None:
    """No two classes and names of types share a name; an underscore makes no other one.

    A type may be assigned in several modules.
    """
    homes: dict[str, set[str]] = {}
    for path in modules():
        for name, what in types_named(parsed(path)):
            homes.setdefault(name.lstrip("_"), set()).add(f"{name_of(path)}: {what}" if "class" in what else what)
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def types_named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a module's classes, and of the types that it assigns, those with what is assigned."""
    for node in walked(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"class in line {node.lineno}"
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        left, right = node.targets[0], node.value
        are_many = isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple)
        for one, given in zip(left.elts, right.elts, strict=True) if are_many else [(left, right)]:
            name, what = ast.unparse(one), ast.unparse(given)
            is_same = what.rpartition(".")[2] == name  # a class under its own name
            if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name) and not is_same:
                yield name, what


def test_types_are_seen() -> None:
    """The rule above knows classes, types that are assigned, and a layout's words, from constants."""
    text = "class A: pass\n_Bc = dict[str, int]\nCD = 1\nEf, G = E_LAYOUT.words, 1\nGh = a.Gh\ndef f():\n    Ij = int"
    types = [("A", "class in line 1"), ("_Bc", "dict[str, int]"), ("Ef", "E_LAYOUT.words")]
    assert list(types_named(ast.parse(text))) == types
