"""The results of the store benchmark: what is counted, its ratios and its plot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from report import Report, Section, draw_ratios, plot

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

COUNTED = (
    "Peer: RocketMQ's own store code in a JVM; neither its start nor Python's and the kernels' loading is counted.",
    "Records of 296 bytes: a unique key, a key and a tag each. Values are medians; x: reput over RocketMQ.",
    "put: one thread, async flush, all checks; from topic, body, tags, keys and unique key to the answer, the message",
    "    object and its properties included. RocketMQ writes queues and index beside the puts, on the same cores;",
    "    reput keeps their entries in memory and writes them later (`reput`, `close`, a follower), outside the clock.",
    "until all is indexed: with the wait until the peer has dispatched all, or reput's catch-up, on the clock. What",
    "    the peer dispatches while the next messages are made is not on its clock.",
    "put_messages: Arrow columns, in batches of a size given above; put_objects: lists of Message objects, made inside",
    "    the clock; send: store.sender(...).put, a sender for each queue. All beside the peer's single put, its",
    "    slowest way: `make bench-topics` has its batches.",
    "Puts: the peer is first in odd rounds, and a warm-up goes into the same store before the clock. After each run",
    "    both logs and queues have the same lengths.",
    "get: passes over all queues of one store that the peer wrote, in the page cache, nothing decoded.",
    "With bodies: the body of each message is looked at. The peer's decoder reads the properties, too; reput's on use.",
    "get 500: the peer gives at most 32 a pull by default; the other line is with its limit raised to 500.",
    "time, key: the same questions to both, on that store; the sums of the answers are equal. The peer also gives",
    "    messages of other keys with the same hash: left out of its sum outside the clock; reput does it inside.",
    "times, keys: the same questions, all of a topic in one call, beside the peer's calls one by one.",
    "open: a log without indexes, as a kill leaves it, in the page cache; the peer's recovery indexes it, reput's",
    "    decodes it into the tail; afterwards both know the same queues.",
    "sync: threads that put with sync flush; put_message_async: one thread that waits for its oldest message only,",
    "    beside the peer's threads. sync_group: reput's rate with threads over the device's fsync rate times them.",
    "threads: reput's put from the threads of put_at_once over that from one.",
    "flat_256: reput's put in 256 topics over that in 64 (8 queues each); flat_queues: in 10,000 queues over 64.",
)


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """The ratios of the last line of output, as COUNTED defines them."""
    names = (
        "put",
        "indexed",
        "send",
        "put_messages",
        "put_objects",
        "get_32",
        "bodies_32",
        "get_500",
        "time",
        "times",
        "key",
        "keys",
    )
    return {
        **{name: lines[name].ratio for name in names},
        "flat_256": lines["topics_256"].median / lines["topics_64"].median,
        "flat_queues": lines["queues_10000"].median / lines["put"].median,
    }


def further_ratios(lines: dict[str, Line], threads: int) -> dict[str, float]:
    """Ratios of the line before it."""
    return {
        "put_at_once": lines["put_at_once"].ratio,
        "threads": lines["put_at_once"].median / lines["put"].median,
        "flat_128": lines["topics_128"].median / lines["topics_64"].median,
        "get_500_raised": lines["get_500_raised"].ratio,
        "open": lines["open"].ratio,
        "sync": lines["sync"].ratio,
        "sync_group": lines["sync"].median / (lines["fsync"].median * threads),
        "sync_async": lines["sync_async"].ratio,
    }


def report(about: dict[str, Any], lines: dict[str, Line], threads: int) -> Report:
    """The results of a run."""
    return Report(
        "store",
        "The message store: reput beside RocketMQ",
        about,
        COUNTED,
        lines,
        [Section.of(lines.values())],
        [further_ratios(lines, threads), ratios(lines)],
        draw=partial(_draw, lines=lines),
        picture="rates and ratios",
    )


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, columns=2) as (left, right):
        puts = [lines[name] for name in ("put", "topics_64", "topics_128", "topics_256", "queues_10000")]
        places = range(len(puts))
        left.bar([place - 0.2 for place in places], [one.peer_median for one in puts], 0.4, label="RocketMQ 5.5.1")
        left.bar([place + 0.2 for place in places], [one.median for one in puts], 0.4, label="reput")
        labels = ["64\nqueues", "64\ntopics", "128\ntopics", "256\ntopics", "10,000\nqueues"]
        left.set_xticks(list(places), labels)
        left.set_ylabel("messages a second")
        left.set_title("put_message, one thread, async flush")
        left.legend()
        draw_ratios(right, lines)
