"""The model of how cost grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import scale_report
from scale_report import GIB, TERMS, Case, Measured, Model

if TYPE_CHECKING:
    from collections.abc import Callable

# Millions of messages, queues, bytes of a body, MiB of a split.
SIZES = (
    (1, 64, 300, 128),
    (4, 64, 300, 128),
    (16, 64, 300, 128),
    (4, 64, 300, 8),
    (1, 64, 4096, 128),
    (4, 10_000, 300, 128),
)


def measured(seconds: Callable[[Case, float, int], float], *further: tuple[int, int, int, int]) -> list[Measured]:
    """Stores whose works take what a function says of the store, its GiB of log and its splits."""
    found = []
    for millions, queues, body, split_mb in (*SIZES, *further):
        case = Case(millions * 1_000_000, queues, body, split_mb)
        size = case.messages * (body + 180)
        splits = -(-size // (split_mb << 20))
        turn = {"seconds": seconds(case, size / GIB, splits), "warm": True, "read_bytes": 0}
        found.append(Measured(case, size, splits, {"rebuild": [turn]}))
    return found


def test_a_model_finds_the_parts_of_a_cost() -> None:
    """Each term gets the seconds that it has in the cost, and the model's word on another store is the cost."""

    def cost(case: Case, gib: float, splits: int) -> float:
        return 0.5 + 0.2 * gib + 0.3 * case.messages / 1e6 + 0.1 * case.queues / 1e3 + 0.01 * splits

    stores = measured(cost, (64, 64, 300, 128))
    model = Model.fit("rebuild", stores[:-1])
    assert model.parts.tolist() == pytest.approx([0.5, 0.2, 0.3, 0.1, 0.01])
    assert model.seconds(stores[-1]) == pytest.approx(stores[-1].seconds("rebuild"))


def test_no_part_of_a_model_is_below_zero() -> None:
    """A work that takes less with more queues has no part for queues, and no other part pays for that."""
    stores = measured(lambda case, _gib, _splits: 1 + case.messages / 1e6 - 0.05 * case.queues / 1e3)
    parts = dict(zip(TERMS, Model.fit("rebuild", stores).parts.tolist(), strict=True))
    assert min(parts.values()) >= 0
    assert parts["thousand queues"] == 0


def test_the_largest_store_is_not_fitted() -> None:
    """Its seconds change the ratio, and no part of the model."""
    small = measured(lambda case, _gib, _splits: 1 + case.messages / 1e6)
    driver = dict.fromkeys(("stitch_seconds", "stitch_bytes", "merge_seconds", "merge_bytes", "peak_bytes"), 1.0)
    driver |= {"merge_rows": 1, "queues": 1, "splits": 1}
    found = []
    for seconds in (65.0, 130.0):
        turn = {"seconds": seconds, "warm": True, "read_bytes": 0}
        largest = Measured(Case(64_000_000, 64, 300, 128), 64 * 480_000_000, 230, {"rebuild": [turn]})
        made = scale_report.report({"cores": 2}, [*small, largest], driver)
        found.append((made.details["model"], made.ratios[0]["rebuild"]))
    assert found[0][0] == found[1][0]
    assert [ratio for _, ratio in found] == pytest.approx([1.0, 2.0])
