"""Reading a store through `reput.connect` without Spark: the same planner and the same tasks, in a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reput.connect.options.options import read_options
from reput.connect.plan import plan_batch
from reput.connect.scan.arrays import arrow_schema
from reput.connect.tasks import tasks_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.connect.plan import ScanPlan


def plan(store: Path | str, **options: Any) -> ScanPlan:
    """The plan of a batch."""
    return plan_batch(read_options({"path": str(store), **{name: str(value) for name, value in options.items()}}))


def table(store: Path | str, **options: Any) -> pa.Table:
    """All rows of a batch."""
    return rows_of(plan(store, **options))


def rows_of(planned: ScanPlan) -> pa.Table:
    """All rows of a plan."""
    batches = [batch for task in tasks_of(planned) for batch in task.read()]
    return pa.Table.from_batches(batches, arrow_schema(planned.job.columns))


def in_order(table: pa.Table) -> list[str]:
    """The rows of a frame, in one order whatever the plan."""
    return sorted(map(repr, table.to_pylist()))
