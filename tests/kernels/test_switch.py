"""One switch chooses the twin, and the twins fit the same calls."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from reput.errors import ConfigError
from reput.kernels import (
    SWITCH,
    Kernels,
    backlog_kernels,
    encode_kernels,
    field_kernels,
    filter_kernels,
    kernels,
    line_kernels,
    lookup_kernels,
    table_kernels,
)
from reput.kernels.layouts.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _ask_again() -> Iterator[None]:
    """Forget which twin was chosen before and after a test."""
    kernels.cache_clear()
    yield
    kernels.cache_clear()


@pytest.mark.parametrize("kind", ["reference", "compiled"])
def test_the_variable_chooses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """REPUT_KERNELS names the twin that `kernels()` gives."""
    monkeypatch.setenv(SWITCH, kind)

    assert kernels() == kernels(kind)


def test_compiled_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable the compiled kernels are taken."""
    monkeypatch.delenv(SWITCH, raising=False)

    assert kernels() == kernels("compiled")


def test_an_unknown_kind_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that there is none of is refused, and the choice is named."""
    monkeypatch.setenv(SWITCH, "fast")

    with pytest.raises(ConfigError, match="REPUT_KERNELS=fast: choose compiled or reference"):
        kernels()


@pytest.mark.parametrize("name", Kernels._fields)
def test_twins_take_the_same_arguments(name: str) -> None:
    """Each kernel has the same parameters in the same order in both twins."""
    reference = getattr(kernels("reference"), name)
    compiled = getattr(kernels("compiled"), name).py_func

    assert list(inspect.signature(compiled).parameters) == list(inspect.signature(reference).parameters)


ALL_KERNELS = (
    kernels, encode_kernels, lookup_kernels, filter_kernels, backlog_kernels, field_kernels, line_kernels,
    table_kernels,
)  # fmt: skip
MOST_PARAMETERS = 10


@pytest.mark.parametrize("choose", ALL_KERNELS)
def test_kernels_take_few_arguments(choose: Callable[[str], tuple[Callable[..., Any], ...]]) -> None:
    """A kernel has at most ten parameters: what belongs together comes as one record."""
    for kernel in choose("reference"):
        assert len(inspect.signature(kernel).parameters) <= MOST_PARAMETERS, kernel.__name__


@pytest.mark.parametrize("name", ["record_columns", "queue_table", "item_sources"])
def test_records_have_the_arrays_of_their_names(name: str) -> None:
    """Each array of a record is that of the columns under the same name."""
    columns = Columns(1, 1, 1)
    for field, array in getattr(columns, name)._asdict().items():
        assert array is getattr(columns, field)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import reput.kernels", ("numba", "numpy")),
        ("import reput.kernels.layouts.columns", ("numba",)),
        ("from reput.kernels import kernels; kernels('reference')", ("numba",)),
    ],
)
def test_numba_is_imported_only_where_it_is_used(code: str, absent: tuple[str, ...]) -> None:
    """Choosing no kernel, or the plain ones, does not import numba: verbs start fast."""
    program = f"import sys; {code}; sys.exit(bool({absent!r} and set({absent!r}) & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
