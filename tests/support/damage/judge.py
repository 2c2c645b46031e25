"""The outcome of one damage: a field of a store is changed, or its file is cut, and the store is asked and checked."""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.errors import ReputError
from reput.formats.log.record import Record
from support.damage import places
from support.damage.answers import CRC, Refused, ask, words_of
from support.damage.places import Place
from support.power.misread import other_sector

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from support.damage.answers import Answers, Question
    from support.damage.stores import Subject


class Outcome(StrEnum):
    """The ways in which a damage may end. Only the last one is a fault."""

    REFUSED = "refused at open"
    AT_READ = "found at read"
    BY_CHECK = "found by check"
    AS_STORED = "as stored"
    HARMLESS = "harmless"
    WRONG = "wrong answer"


class Damage(NamedTuple):
    """A change of a file: `data` replaces the bytes at `offset`; None: the file is cut there."""

    place: Place
    offset: int
    data: bytes | None

    @property
    def row(self) -> tuple[str, str]:
        """The kind and the field that its outcome counts for."""
        if self.data is None:
            return file_kind(self.place), "the file is cut"
        return self.place.kind, self.place.field

    def __str__(self) -> str:
        change = "cut" if self.data is None else f"set to {self.data.hex()[:40]}"
        return f"{self.place.path}, byte {self.offset} ({self.place.kind}: {self.place.field}): {change}"


_FILE_OF = {
    **dict.fromkeys((places.RECORD, places.BLANK), places.LOG),
    **dict.fromkeys((places.ENTRY, places.PRE_BLANK), places.QUEUE),
    places.BATCH: places.BATCHES,
    places.UNIT: places.EXT,
    **dict.fromkeys((places.HEADER, places.SLOT, places.ITEM), places.INDEX),
}
_STATES = {
    "config/consumerOffset.json": {"offset", "progress", "timers", "transactions"},
    "config/lmqConsumerOffset.json": {"offset", "progress"},
    "config/delayOffset.json": {"timers", "transactions"},
    "config/timercheck": {"timers", "transactions"},
}
"""Files that alone have a state, without a checksum, and the first words of the questions that it answers."""
_BYTES_CHANGED = 8
SECTOR_READ = "a wrong sector is read"
_OTHER_SECTORS = 8


def file_kind(place: Place) -> str:
    """Return the kind of file that a place is in."""
    return _FILE_OF.get(place.kind, place.kind)


def flipped(place: Place, chance: random.Random) -> Damage:
    """Return a change of a field: one bit, all ones or all zeros; of a long field some bytes."""
    data = place.path.read_bytes()
    begin = chance.randrange(max(1, place.size - _BYTES_CHANGED + 1))
    at = place.offset + begin
    old = data[at : at + min(place.size, _BYTES_CHANGED)]
    new = chance.choice((b"\xff" * len(old), bytes(len(old)), old))
    if new == old:
        changed = bytearray(old)
        changed[chance.randrange(len(old))] ^= 1 << chance.randrange(8)
        new = bytes(changed)
    return Damage(place, at, new)


def cut(place: Place) -> Damage:
    """Return a cut in the middle of a field."""
    return Damage(place, place.offset + place.size // 2, None)


def misread(kind: str, files: Sequence[Path], others: Sequence[Path], chance: random.Random) -> Damage | None:
    """Return a read of a wrong sector of one of these files of a kind: the bytes of one of `others` come instead.

    None if no file has data, or no other bytes were found.
    """
    for path in chance.sample(files, len(files)):
        near = chance.random() < 0.5
        from_files = files if near else chance.sample(others, min(len(others), _OTHER_SECTORS))
        if (found := other_sector(path, from_files, chance)) is not None:
            at, data = found
            return Damage(Place(kind, SECTOR_READ, path, at, len(data)), at, data)
    return None


@contextmanager
def damaged(one: Damage) -> Iterator[None]:
    """Damage a file for the time of the block."""
    path = one.place.path
    whole = path.read_bytes()
    if one.data is None:
        path.write_bytes(whole[: one.offset])
    else:
        path.write_bytes(whole[: one.offset] + one.data + whole[one.offset + len(one.data) :])
    try:
        yield
    finally:
        path.write_bytes(whole)


class Judged(NamedTuple):
    """An outcome, and what was said or answered; `differs`: an answer is another one, and no answer says why."""

    outcome: Outcome
    detail: str
    differs: bool = False


class Judge:
    """Knows what a store answers when it is whole, and judges what it answers when it is damaged."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._words = words_of(subject.path, subject.config)
        self._whole = self._ask()
        self._findings = self._check()
        assert self._whole.refused is None
        assert not any(isinstance(answer, Refused) for answer in self._whole.answers.values())

    def judge(self, one: Damage) -> Judged:
        """Return the outcome of a damage; the store is whole again afterwards."""
        with damaged(one):
            answers, findings = self._ask(), self._check() - self._findings
        if answers.refused is not None:
            return Judged(Outcome.REFUSED, answers.refused.text)
        said = [str(answer) for answer in answers.answers.values() if isinstance(answer, Refused)]
        said += [note for note in answers.notes if note not in self._whole.notes]
        said += [f"{question}: no" for question, answer in answers.answers.items() if question[0] == CRC and not answer]
        if said:
            return Judged(Outcome.AT_READ, said[0])
        other = self._differences(answers)
        if findings:
            return Judged(Outcome.BY_CHECK, min(findings), bool(other))
        if not other:
            return Judged(Outcome.HARMLESS, "")
        is_own = all(self._is_own(one.place, question, answers) for question in other)
        return Judged(Outcome.AS_STORED if is_own else Outcome.WRONG, f"{sorted(map(str, other))[:4]}", differs=True)

    def _ask(self) -> Answers:
        return ask(self._subject.path, self._subject.config, self._words)

    def _check(self) -> set[str]:
        try:
            report = reput.check(self._subject.path, spark=False, config=self._subject.config)
        except ReputError as error:
            return {f"{type(error).__name__}: {error}"}
        return {f"{one.rule} ({one.severity}) {one.file} {one.offset}: {one.detail}" for one in report.findings}

    def _differences(self, answers: Answers) -> set[Question]:
        before, after = self._whole.answers, answers.answers
        return {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}

    def _is_own(self, place: Place, question: Question, answers: Answers) -> bool:
        """Return True if the answer differs in nothing but the value that is stored in this field alone."""
        before, after = self._whole.answers.get(question), answers.answers.get(question)
        if isinstance(before, Record) and isinstance(after, Record):
            return _without(place, before) == _without(place, after)
        if isinstance(before, list) and isinstance(after, list) and question[0] in {"key", "tag"}:
            return [_without(place, one) for one in before] == [_without(place, one) for one in after]
        return any(place.kind.startswith(kind) and question[0] in asked for kind, asked in _STATES.items())


def _without(place: Place, record: Record) -> Record:
    """Return a record without the value that is stored in this field alone."""
    own = "properties" if place.field.startswith("property") else place.field
    return record._replace(**{own: None}) if own in Record._fields else record
