"""Makes `format("rocketmq")` known to Spark: it looks into top-level modules of such a name for a `DefaultSource`."""

from __future__ import annotations

from reput.connect.source import RocketmqSource as DefaultSource

__all__ = ["DefaultSource"]
