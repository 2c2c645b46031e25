#!/usr/bin/env python
"""Writes the tables of docs/findings.md from the code: every rule of `reput check`.

    python scripts/findings.py

Names, severities and meanings are those of `reput.pipeline.check.rules`. `REMEDIES` says what helps.
"""

from __future__ import annotations

from pathlib import Path

from reput.pipeline.check.rules import RULES, CheckRule, Group

PAGE = Path(__file__).resolve().parents[1] / "docs" / "findings.md"
BEGIN, END = "<!-- made by scripts/findings.py -->\n", "<!-- end of what it made -->\n"
OF_GROUPS = {
    Group.LOG: "Against damage of the log see [Recover](tasks/recover.md#the-log-is-damaged-in-the-middle).",
    Group.QUEUES: "Where no row says what to do, [`reput rebuild`](tasks/rebuild.md) mends the damage.",
    Group.EXT: "[`reput rebuild`](tasks/rebuild.md) mends the damage.",
    Group.INDEX_FILES: "[`reput rebuild`](tasks/rebuild.md) mends the damage, also with `--only index`.",
    Group.INDEX_DATABASE: "`reput rebuild --only index` mends the damage; see "
    "[The index in RocksDB](tasks/rebuild.md#the-index-in-rocksdb).",
    Group.METADATA: "A rebuild does not help against these: it goes on without what cannot be read, and warns.\n"
    "[Look at a store](tasks/inspect.md#where-topics-groups-and-offsets-are) says what commands do without it.",
}
"""The remedies that hold for all findings of a group, unless a row has its own."""
REMEDIES = {
    "setting-contradicted": "correct or remove the setting; see "
    "[Configuration](configuration.md#settings-that-contradict-the-files)",
    "log-path-missing": "mount its disk, or correct the setting; see "
    "[Limits](tasks/limits.md#a-log-over-several-paths)",
    "log-times": "nothing if a clock was set back; else the records after that place may be stale ones, which a "
    "truncation left: see [the museum](museum.md#10666-a-truncation-that-left-good-records)",
    "log-torn-properties": "nothing if nobody misses its tags and keys: the producer had no acknowledgement of it with "
    "sync flush",
    "queue-type": "correct the topic, or [rebuild](tasks/rebuild.md) what it says; see "
    "[Limits](tasks/limits.md#queues-of-batches)",
    "queue-not-used": "nothing, or [rebuild](tasks/rebuild.md)",
    "queue-of-deleted-topic": "nothing if somebody deleted the topic; else `reput rebuild --only queue` brings the "
    "queue back",
    "queue-of-expired-lite-topic": "nothing: the broker deleted the lite topic when it expired",
    "queue-deleted": "nothing; see [Delete](tasks/delete.md#what-to-know-about-deleted-queues)",
    "queue-deletion-begun": "nothing: the next command that writes the store finishes the deletion",
    "database-in-part": "copy the database again, or [rebuild](tasks/rebuild.md) the queues",
    "two-databases": "correct the setting, or [rebuild](tasks/rebuild.md) with the broker's "
    "`useSeparateStorePathForRocksdbCQ`",
    "index-without-tags": "nothing if the broker is older than 5.4.0; see [Rebuild](tasks/rebuild.md#old-brokers)",
    "metadata-newer": "read the store with a newer reput; reput changes no topic, group or offset beside such keys",
    "not-a-folder": "move the file away",
    "not-a-file": "move the folder away",
    "stray-file": "nothing; if the finding says that RocketMQ does not load the log beside a file, move that file away",
    "log-kept": "look for the messages that are missing there, and remove the folder; see "
    "[Recover](tasks/recover.md#after-a-crash)",
    "own-file-damaged": "remove the file, which reput makes again, and [rebuild](tasks/rebuild.md)",
    "checkpoint-cut": "[rebuild](tasks/rebuild.md)",
}
"""The remedy against the findings of a rule."""


def tables() -> str:
    """Make all tables, as Markdown."""
    return "\n".join(_section(group) for group in Group)


def _section(group: Group) -> str:
    head = ["| finding | severity | meaning | do |", "|---|---|---|---|"]
    rows = [_row(rule) for rule in RULES.values() if rule.group is group]
    text = f"{OF_GROUPS[group]}\n\n" if group in OF_GROUPS else ""
    return f"## {group}\n\n{text}" + "\n".join([*head, *rows]) + "\n"


def _row(rule: CheckRule) -> str:
    severities = " or ".join(rule.severities)
    return f"| `{rule.name}` | {severities} | {rule.meaning} | {REMEDIES.get(rule.name, '')} |"


def renewed(page: str) -> str:
    """The page with the tables as the code has them now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
