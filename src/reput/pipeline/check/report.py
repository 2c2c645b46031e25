"""The report of a check as plain values: text and JSON outputs come from the same report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.pipeline.check.rules import DAMAGE, LEFTOVER, RULES, SETTING


@dataclass(slots=True)
class Finding:
    """A finding of a check: the rule, its first place (byte `offset` in `file`), and how often it was broken.

    `severity`: `damage` makes a store unsound; `leftover` is the remains of a crash, which RocketMQ repairs when it
    opens the store; `note` is worth knowing. `setting` is a given setting that the files contradict: the files are
    judged without it, and RocketMQ would not load them with it.
    """

    rule: str
    severity: str
    file: str
    offset: int | None
    count: int
    detail: str


@dataclass(slots=True, repr=False)
class CheckReport:
    """The findings of a check. Offsets are bytes of the log, durations seconds.

    `messages` counts the log's records; a batch is one record. `queue_entries` counts the entries that queues must
    have, `queue_messages` their messages, with those inside batches.

    `held_by` and `held_by_pid` name the process that held the store (see `reput.store.owner.holders`). If it appends,
    the log was judged up to `log_max_offset` and the indexes up to `indexes_to`.
    """

    store: str
    findings: list[Finding] = field(default_factory=list)
    closed_cleanly: bool = True
    held_by: str = "nobody"
    held_by_pid: int = 0
    indexes_to: int | None = None
    log_min_offset: int = 0
    log_max_offset: int = 0
    messages: int = 0
    queue_entries: int = 0
    queue_messages: int = 0
    index_items: int = 0
    index_entries: int = 0
    queues: int = 0
    index_files: int = 0
    assumed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        verdict = "sound" if self.sound else "not sound"
        return f"CheckReport({self.store!r}, {verdict}, {self.messages} messages, {len(self.findings)} findings)"

    @property
    def sound(self) -> bool:
        """True if no finding is damage."""
        return all(finding.severity != DAMAGE for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command line: 0 sound, 1 damaged, or a setting contradicts the files."""
        return 0 if self.sound and not self.wrong_settings else 1

    @property
    def wrong_settings(self) -> list[Finding]:
        """The findings about a given setting, not about the store."""
        return [finding for finding in self.findings if finding.severity == SETTING]

    def after_crash(self, rule: str, file: str, offset: int | None, count: int, detail: str) -> None:
        """Add remains of a crash of RocketMQ: a leftover, or damage in a store that was closed cleanly."""
        self._add(DAMAGE if self.closed_cleanly else LEFTOVER, rule, file, offset, count, detail)

    def damage(self, rule: str, file: str, offset: int | None, count: int, detail: str) -> None:
        """Add damage."""
        self._add(DAMAGE, rule, file, offset, count, detail)

    def remark(self, severity: str, rule: str, file: str, count: int, detail: str) -> None:
        """Add a finding that is not damage."""
        self._add(severity, rule, file, None, count, detail)

    def _add(self, severity: str, rule: str, file: str, offset: int | None, count: int, detail: str) -> None:
        if severity not in RULES[rule].severities:
            raise ValueError(f"{rule} is {severity}, which the table of rules does not have")
        self.findings.append(Finding(rule, severity, file, offset, count, detail))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {"sound": self.sound, **asdict(self)}
