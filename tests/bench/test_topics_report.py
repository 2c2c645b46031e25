"""The comparison by topics: what is left of a rate."""

from __future__ import annotations

import math

import pytest
import topics_report
from lines import Line
from topics_report import CLASSIC, Case

LIKE = Case("stores", "disk", "none", "single", 128, 0)


def lines(**rates: tuple[float, float, float]) -> dict[Case, Line]:
    """Lines of single puts in 64, 128 and 256 topics."""
    found = {}
    for number, queues in enumerate(CLASSIC):
        sides = {name: [values[number]] for name, values in rates.items()}
        ours, peer = sides.pop("reput", []), sides.pop("RocketMQ", [])
        found[LIKE._replace(queues=queues)] = Line("", "messages/s", ours, peer, sides)
    return found


def test_what_is_left_is_the_rate_in_256_topics_over_that_in_64() -> None:
    """Each side that has both rates has it, and no other side."""
    given = lines(reput=(10, 9, 8), RocketMQ=(5, 5, 5), Kafka=(100, 10, 2))
    given[LIKE._replace(queues=CLASSIC[-1])].others["Late"] = [1.0]
    assert topics_report.kept(given, LIKE) == pytest.approx({"reput": 0.8, "RocketMQ": 1.0, "Kafka": 0.02})
    found = topics_report.ratios(given)
    assert (found["put_64"], found["put_256"], found["flat"], found["flat_kafka"]) == pytest.approx((2, 1.6, 0.8, 0.02))
    assert math.isnan(found["flat_kafka_broker"])


def test_what_a_side_could_not_do_is_on_the_page() -> None:
    """A problem is a line below the tables."""
    made = topics_report.report({"cores": 2}, lines(reput=(1, 1, 1), RocketMQ=(1, 1, 1)), ["100,000 queues: it ended"])
    assert "- 100,000 queues: it ended" in made.sections[-1].notes
