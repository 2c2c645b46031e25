"""The scripts of scripts/, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).parents[2] / "scripts"


def load(name: str) -> ModuleType:
    """The script of that name."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
