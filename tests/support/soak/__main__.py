"""The soak: starts the programs, gives them work, weather and pauses, and says what came of it.

    python -m support.soak --minutes 30
    python -m support.soak --hours 8 --seed 7 --keep /data/soak

In each turn the programs work in one kind of weather. Then the writer closes the store, the reader must have read all
that was stored, `reput check` must find the store sound, and `reput rebuild` builds all indexes anew beside the reader
and the follower, which go on. The exit code is 1 if anything was lost or grew; the store is then kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from support.lines import say
from support.soak import verdict
from support.soak.board import Board, Phase, Timed, Weather
from support.soak.programs import PROGRAMS, SETTINGS
from support.soak.samples import disk_bytes, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from support.soak.verdict import Moment

TESTS = Path(__file__).resolve().parents[2]
SAMPLE_INTERVAL_S = 1.0
PAUSE_S = 300.0
"""The most that a pause may take: the slowest part is a rebuild on a slow machine."""
_BUSY, _TRIES_S = 2, 60.0
"""The exit code of a job that another one keeps out: a follower that catches up, for a while."""


class SoakError(Exception):
    """Something was lost, grew, or ended."""


class Soak:
    """One soak in a folder.

    Args:
        folder: where the store goes.
        seconds: how long it lasts.
        turn_s: how long the programs work before a pause.
        seed: what the programs do.
    """

    def __init__(self, folder: Path, seconds: float, turn_s: float, seed: int) -> None:
        self._folder, self._seconds, self._turn_s, self._seed = folder, seconds, turn_s, seed
        self._store, self._words = folder / "store", folder / "board"
        self.board = Board(self._words, new=True)
        self.moments: list[Moment] = []
        self.lag_most, self.turns = 0, 0
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Run to the end.

        Raises:
            SoakError: something is wrong.
        """
        deadline = time.monotonic() + self._seconds
        with self._started():
            while self.turns < len(Weather) or time.monotonic() < deadline:
                self.board.state[Board.WEATHER] = Weather(self.turns % len(Weather))
                self._work()
                self._pause()
                self.turns += 1
                say(self._turn_line(Weather(int(self.board.state[Board.WEATHER]))))
            self.board.state[Board.PHASE] = Phase.END
            for name, program in self._programs.items():
                if program.wait(PAUSE_S):
                    raise SoakError(f"{name}: {self._last_words(name)}")
        wrong = verdict.lost(self.board) + verdict.grown(self.moments)
        if wrong:
            raise SoakError("\n".join(wrong))

    @contextlib.contextmanager
    def _started(self) -> Iterator[None]:
        try:
            for role in PROGRAMS:
                words = (sys.executable, "-m", "support.soak.programs", role, self._store, self._words, self._seed)
                with self._errors(role).open("wb") as errors:
                    self._programs[role] = subprocess.Popen(
                        [str(word) for word in words], stderr=errors, env={**os.environ, "PYTHONPATH": str(TESTS)}
                    )
            yield
        finally:
            for program in self._programs.values():
                program.kill()
                program.wait()

    def _errors(self, role: str) -> Path:
        return self._folder / f"{role}.err"

    def _last_words(self, role: str) -> str:
        return self._errors(role).read_text(errors="replace").strip()[-2000:] or "it ended without a word"

    def _work(self) -> None:
        self.board.state[Board.PAUSED] = 0
        self.board.state[Board.PHASE] = Phase.WORK
        self._wait(lambda: bool(self.board.state[Board.WRITER_OPEN]), "the writer opens the store")
        end = time.monotonic() + self._turn_s
        while time.monotonic() < end:
            time.sleep(min(SAMPLE_INTERVAL_S, self._turn_s / 4))
            self._look()
        self.board.state[Board.PHASE] = Phase.PAUSE

    def _look(self) -> None:
        self._refuse_ended()
        seen = {name: sample(program.pid) for name, program in self._programs.items()}
        samples = {name: one for name, one in seen.items() if one is not None}
        lag = int(self.board.state[Board.LAG])
        self.moments.append(verdict.Moment(samples, disk_bytes(self._store), lag))
        self.lag_most = max(self.lag_most, lag)

    def _pause(self) -> None:
        """Wait until all is read; check the store, and build its indexes anew."""
        self._wait(lambda: bool(self.board.state[Board.PAUSED]), "the writer closes the store")
        self._wait(lambda: not verdict.lost(self.board), "the reader reads what was stored")
        conf = self._folder / "soak.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        self._job("check", "--quiet")
        self._job("rebuild", "--config", str(conf))

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PAUSE_S
        while not holds():
            if time.monotonic() > deadline:
                raise SoakError(f"never came: {what}; {'; '.join(verdict.lost(self.board))}")
            self._refuse_ended()
            time.sleep(0.05)

    def _refuse_ended(self) -> None:
        for name, program in self._programs.items():
            if program.poll() is not None:
                raise SoakError(f"{name} has ended: {self._last_words(name)}")

    def _job(self, *words: str) -> None:
        command = [sys.executable, "-m", "reput", words[0], str(self._store), *words[1:]]
        deadline = time.monotonic() + _TRIES_S
        while True:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PAUSE_S, check=False)
            if not done.returncode:
                return
            if done.returncode != _BUSY or time.monotonic() > deadline:
                raise SoakError(f"reput {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            time.sleep(0.5)

    def _turn_line(self, weather: Weather) -> str:
        board = self.board
        return (
            f"turn {self.turns}, {weather.name.lower().replace('_', ' ')}: {int(board.put.sum()):,} stored and read, "
            f"{int(board.state[Board.ASKED]):,} keys found, {int(board.state[Board.DELETED]):,} files deleted, "
            f"{int(board.state[Board.REFUSED]):,} puts refused; disk {self.moments[-1].disk / 2**20:,.0f} MiB"
        )

    def report(self) -> list[str]:
        """The tables: the time of each call by weather, and what each program holds."""
        calls = ("put", "batch of 50", "put_message_async", "wait for the next", "get 64", "key")
        lines = [f"| weather | {' | '.join(calls)} |", "|---|" + "--:|" * len(calls)]
        for weather in Weather:
            cells = []
            for call in Timed:
                half, most = (self.board.quantile_ms(weather, call, share) for share in (0.5, 0.99))
                cells.append(f"{half:.2f} / {most:.2f}")
            lines.append(f"| {weather.name.lower().replace('_', ' ')} | {' | '.join(cells)} |")
        lines += ["", "p50 / p99 in ms. Held in the second and in the last third of the time:", ""]
        lines += [f"- {role}: {verdict.growth(self.moments, role)}" for role in PROGRAMS]
        return lines

    def last_line(self, seconds: float) -> str:
        """The line that says it all."""
        disk = [moment.disk for moment in self.moments]
        put, get = (self.board.quantile_ms(Weather.CALM, call, 0.99) for call in (Timed.PUT, Timed.GET))
        return (
            f"{seconds / 60:.0f} minutes, {self.turns} turns: {int(self.board.put.sum()):,} messages stored and read, "
            f"none lost, checksums equal; at most {self.lag_most / 2**20:.0f} MiB of log without indexes, "
            f"{max(disk) / 2**20:.0f} MiB of disk; in calm weather p99 of a put {put:.1f} ms, of a get {get:.1f} ms"
        )


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="support.soak", description="Work on one store for a long time.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--hours", type=float, default=0.0, help="instead of minutes")
    parser.add_argument("--turn", type=float, default=30.0, help="seconds of work before each pause")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="an empty folder for the store, which is kept")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run a soak; exit with 1 if something is wrong."""
    args = arguments(words)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    seconds = args.hours * 3600 or args.minutes * 60
    soak, begun = Soak(folder, seconds, args.turn, args.seed), time.monotonic()
    try:
        soak.run()
    except SoakError as error:
        say("\n".join(soak.report()))
        say(f"the store is in {folder}; repeat with --seed {args.seed}")
        say(f"{error}")
        return 1
    say("\n".join(soak.report()))
    say("")
    say(soak.last_line(time.monotonic() - begun))
    if args.keep is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
