"""The layouts of all formats, found in their modules: a new one is in the tests of layouts without a list."""

from __future__ import annotations

import importlib
import pkgutil

import reput.formats
from reput.formats.layout import Layout


def every_layout() -> list[Layout]:
    """Return each layout that a module of formats has under a name of its own."""
    names = [module.name for module in pkgutil.walk_packages(reput.formats.__path__, "reput.formats.")]
    modules = [importlib.import_module(name) for name in names]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Layout)}
    return list(found.values())
