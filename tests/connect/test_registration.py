"""`reput.register` warns of workers whose Python differs from the program's."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from reput.connect.source import register, warning_of_another_python

if TYPE_CHECKING:
    from pathlib import Path


def python_in(folder: Path) -> str:
    """An environment's `python3`: a link to the Python that it was made with."""
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    return str(folder / "python3")


def test_the_workers_are_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another environment's `python3` first on the PATH is reported, the own one is not, though both are one binary."""
    mine, other = python_in(tmp_path / "mine"), python_in(tmp_path / "other")
    monkeypatch.setenv("PATH", str(tmp_path / "mine"))
    assert warning_of_another_python("python3", mine) == ""
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert f"run {other}, and this program {mine}" in warning_of_another_python("python3", mine)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"PYSPARK_PYTHON={mine}" in warning_of_another_python("python3", mine)


def test_register_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    """Without PYSPARK_PYTHON it warns, and registers all the same; with it somebody has chosen."""
    registered: list[object] = []
    session = SimpleNamespace(
        sparkContext=SimpleNamespace(pythonExec=python_in(tmp_path / "other")),
        conf=SimpleNamespace(set=lambda _name, _value: None),
        dataSource=SimpleNamespace(register=registered.append),
    )
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with pytest.warns(RuntimeWarning, match="Set PYSPARK_PYTHON="):
        register(session)  # type: ignore[arg-type]
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    register(session)  # type: ignore[arg-type]
    assert len(registered) == 2
    assert not recwarn.list
