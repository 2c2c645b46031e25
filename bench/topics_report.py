"""The results of the comparison by topics: what is counted, its tables, its plot, and what is left of each rate."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lines import Line, Spread
from report import Report, Section, plot

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

COUNTED = (
    "One thread puts. A message has a body of 128 bytes or 1 KiB, a tag, a key and a unique key; in Kafka the key is",
    "    the record's, the other two are headers. Queues are chosen by chance; a topic has 8 of them.",
    "single: a message a put. batch: 100 messages of one queue a put. What an application gives is prepared outside",
    "    the clock; making the message and its bytes, and putting it, are inside. columns: 1,000 messages of all",
    "    queues, as Arrow columns.",
    "Before the clock runs, 21 messages go into each queue, so that all its files have begun (Kafka's indexes do after",
    "    4 KiB), and a warm-up (WARM_UP) into the same store, in which Java compiles its code. Up to 256 topics, 21",
    "    more go before each measurement: a system may page out what has been cold for half a minute, and a put into",
    "    such a log waits for the disk. The heaps of the Java processes are there from the start.",
    "RocketMQ: its store code 5.5.1, which builds its queues and its index beside. reput: its store, which keeps them",
    "    in memory until `reput follow` or a rebuild writes them. Kafka: LogManager and UnifiedLog of its broker; the",
    "    high watermark moves with each append.",
    "fsync none: the system writes when it likes. 500 ms: RocketMQ and reput sync their one log, Kafka each log with",
    "    new messages, and its indexes (log.flush.interval.ms). RocketMQ's queues then have their own defaults.",
    "disk: BENCH_DIR's. memory: /dev/shm. A measurement ends early after 2 GiB. Nobody reads meanwhile.",
    "brokers: RocketMQ 5.5.0 with its client, `reput serve` with the same client, Kafka (KRaft, one process) with its",
    "    own, on the loopback address. single: a request or batch for each message, 256 under way. batch: RocketMQ's",
    "    client sends 100 messages of a queue in a request, 256 under way; Kafka's gathers by itself, as by default,",
    "    with as many messages under way.",
    "In each round another side is the first.",
    "Values are medians, with the smallest and the largest of the rounds; x: reput over RocketMQ. Many queues: once.",
)
ARTICLE = {"RocketMQ": (90_000, 78_000, 75_000), "Kafka": (136_000, 8_500, 2_200)}
"""The rates of the article for 64, 128 and 256 topics: messages of 128 bytes through brokers of 2016."""
CLASSIC = (64 * 8, 128 * 8, 256 * 8)
COLORS = {"RocketMQ": "tab:blue", "reput": "tab:orange", "Kafka": "tab:green", "reput, columns": "tab:red"}


class Case(NamedTuple):
    """A measurement: a part of the benchmark, the place and the policy, how messages were put, and the queues."""

    part: str
    place: str
    policy: str
    mode: str
    body: int
    queues: int


Lines = dict[Case, Line]


def title(case: Case) -> str:
    """The name of a group of lines."""
    where = {"disk": "on the disk", "memory": "in memory"}[case.place]
    return f"{case.part.capitalize()}, {where}, fsync {case.policy}"


def line_name(case: Case) -> str:
    """The name of a line in its group."""
    size = "1 KiB" if case.body == 1024 else f"{case.body} bytes"
    count = f"{case.queues:,} queues" if case.part == "many" else f"{case.queues // 8} topics"
    return f"{case.mode}, {size}, {count}"


def sides(line: Line) -> dict[str, list[float]]:
    """The values of every side that has some."""
    named = {"RocketMQ": line.peer, "reput": line.ours, **line.others}
    return {name: values for name, values in named.items() if values}


def groups(lines: Lines) -> dict[str, Lines]:
    """The lines by group, each in order of mode, size and queues."""
    found: dict[str, Lines] = {}
    for case in sorted(lines, key=lambda one: (one.body, one.mode != "single", one.queues)):
        found.setdefault(title(case), {})[case] = lines[case]
    order = {title(case): (case.part, case.place, case.policy) for case in lines}
    names = ("stores", "brokers", "many")
    return {name: found[name] for name in sorted(found, key=lambda one: (names.index(order[one][0]), order[one][1:]))}


def kept(lines: Lines, like: Case) -> dict[str, float]:
    """The part of each side's rate in 64 topics that is left in 256."""
    few, lot = (lines.get(like._replace(queues=queues)) for queues in (CLASSIC[0], CLASSIC[-1]))
    if few is None or lot is None:
        return {}
    before, after = sides(few), sides(lot)
    return {
        name: Spread.of(after[name]).median / Spread.of(values).median
        for name, values in before.items()
        if name in after
    }


def ratios(lines: Lines) -> dict[str, float]:
    """The ratios of the last line of output."""
    like = Case("stores", "disk", "none", "single", 128, 0)
    found = {}
    for queues in CLASSIC:
        line = lines.get(like._replace(queues=queues))
        if line is not None:
            found[f"put_{queues // 8}"] = line.ratio
    left, served = kept(lines, like), kept(lines, like._replace(part="brokers"))
    synced = kept(lines, like._replace(policy="500 ms"))
    flat = {"flat": left.get("reput"), "flat_rocketmq": left.get("RocketMQ"), "flat_kafka": left.get("Kafka")}
    flat |= {"flat_kafka_synced": synced.get("Kafka"), "flat_kafka_broker": served.get("Kafka")}
    return found | {name: math.nan if value is None else value for name, value in flat.items()}


def claim(lines: Lines) -> list[str]:
    """Sentences on what is left of each rate from 64 to 256 topics, the article's first."""
    then = ", ".join(f"{name} {rates[-1] / rates[0]:.2f}" for name, rates in ARTICLE.items())
    found = [f"- What is left in 256 topics of the rate in 64, by the article: {then}."]
    for name, group in groups(lines).items():
        for mode, body in dict.fromkeys((case.mode, case.body) for case in group):
            like = next(iter(group))._replace(mode=mode, body=body)
            left = ", ".join(f"{side} {value:.2f}" for side, value in kept(lines, like).items())
            found += [f"- {name}, {mode}, {body} bytes: {left}."] if left else []
    return found


def report(about: dict[str, Any], lines: Lines, problems: list[str]) -> Report:
    """The results of a run."""
    tables = [Section.of(group.values(), name) for name, group in groups(lines).items()]
    tables[-1].notes = [*(f"- {problem}" for problem in problems), "", "What is left:", "", *claim(lines)]
    keyed = {"_".join(map(str, case)).replace(" ", ""): line for case, line in lines.items()}
    return Report(
        "topics",
        "The classic comparison: 64, 128 and 256 topics in reput, RocketMQ and Kafka",
        about,
        COUNTED,
        keyed,
        tables,
        [ratios(lines)],
        draw=partial(_draw, lines=lines),
        picture="rates against topics",
        details={"problems": problems},
    )


def _draw(path: Path, lines: Lines) -> None:
    shown = {
        (name, mode, body): [case for case in group if (case.mode, case.body) == (mode, body)]
        for name, group in groups(lines).items()
        for mode, body in dict.fromkeys((case.mode, case.body) for case in group)
    }
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    with plot(path, columns, rows, (4.2 * columns, 3.4 * rows)) as panels:
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes, ((name, mode, body), cases) in zip(panels, shown.items(), strict=False):
            _panel(axes, lines, cases)
            axes.set_title(f"{name}\n{mode}, {body} bytes", fontsize=9)
        panels[0].legend(fontsize=8)


def _panel(axes: Axes, lines: Lines, cases: list[Case]) -> None:
    per = 1 if cases[0].part == "many" else 8
    drawn: dict[str, list[tuple[int, Spread]]] = {}
    for case in cases:
        for name, values in sides(lines[case]).items():
            drawn.setdefault(name, []).append((case.queues // per, Spread.of(values)))
    for name, points in drawn.items():
        places, spreads = zip(*points, strict=True)
        middles = [one.median for one in spreads]
        errors = ([one.median - one.least for one in spreads], [one.most - one.median for one in spreads])
        axes.errorbar(places, middles, yerr=errors, fmt="o-", capsize=2, label=name, color=COLORS.get(name))
    if cases[0].part == "brokers" and cases[0].mode == "single":
        for name, rates in ARTICLE.items():
            places = [queues // 8 for queues in CLASSIC]
            axes.plot(places, rates, ":", color=COLORS[name], alpha=0.6, label=f"{name}, the article")
        axes.legend(fontsize=7)
    axes.set_xscale("log", base=2 if per == 8 else 10)
    axes.set_yscale("log")
    axes.set_xticks([case.queues // per for case in cases], [f"{case.queues // per:,}" for case in cases])
    axes.minorticks_off()
    axes.set_xlabel("queues" if per == 1 else "topics")
    axes.set_ylabel("messages a second")
