"""Makes golden stores: RocketMQ writes them, damaged copies are made of them, and RocketMQ answers questions about all.

make golden-stores OUT=folder SEED=7 MESSAGES=5000
PYTHONPATH=tests python -m peer.golden_stores FOLDER --seed 7 --messages 5000 [--only basic torn ...]

tests/golden/README.md says what is in them. The same seed gives the same messages, but RocketMQ stores them at times
of its own, so two runs give two different sets.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import random
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reput
from peer import peer
from reput.config import StoreConfig, parse_properties
from reput.formats import paths
from reput.formats.log.record import LOCALHOST, Host
from support import golden, kinds, stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

REBUILT = "expired-rebuilt"
NAMES = (*golden.STORES, *golden.DAMAGED)
STORE_HOSTS = (*[LOCALHOST] * 7, Host(b"\xfd" + bytes(14) + b"\x17", 10911))
PAUSE_MS = 10
"""One message in thirteen waits so long, so that the store times of a queue differ."""
MESSAGES_MIN = 3000
"""Golden tests need several files of log, index and a queue."""


class MakingError(RuntimeError):
    """RocketMQ refused a message, or did not close a store."""


def make(out: Path, seed: int, count: int, names: Sequence[str] = NAMES) -> Iterator[str]:
    """Make the golden stores and damaged copies `names`, and say the name of each that is done."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = {golden.DAMAGED.get(name, name) for name in names}
    for number, origin in enumerate(name for name in golden.STORES if name in wanted):
        with tempfile.TemporaryDirectory(prefix="reput-golden-") as scratch:
            store = write(origin, Path(scratch), seed * 100 + number, count)
            pack(out, origin, store)
            copies = [name for name in NAMES if name in names and golden.DAMAGED.get(name, name) == origin]
            for name in copies:
                copy = stores.copy(store, Path(scratch) / "copies" / name)
                if name in golden.DAMAGED:
                    golden.damage(copy, name)
                answer(out, name, origin, copy, seed * 100 + number)
                if name == "expired-noindexes":
                    pack(out, REBUILT, copy, (paths.CHECKPOINT, paths.CONSUME_QUEUE, paths.INDEX))
                yield name


def write(name: str, folder: Path, seed: int, count: int) -> Path:
    """Have RocketMQ write a store of `count` messages below a folder."""
    mix = kinds.GOLDEN_BATCHES if name == "batch" else kinds.GOLDEN
    options: list[str | int] = [*peer.GOLDEN_SETTINGS, *peer.GOLDEN_KINDS[name]]
    if name == "ext":
        options += ["--random-bitmaps", seed]
    store, copy = folder / "written" / name, folder / name
    with peer.holding(store, *options) as put:
        for line in lines(seed, mix, count):
            result = put(line)
            if result["status"] != "PUT_OK":
                raise MakingError(f"{name}: RocketMQ answers {result['status']} to {line}")
        put({"await": "dispatch"})
        if name == "crash":
            stores.copy(store, copy)
    if (store / paths.ABORT).exists():
        raise MakingError(f"{name}: RocketMQ did not close the store cleanly")
    if name != "crash":
        store.rename(copy)
    return copy


def lines(seed: int, mix: kinds.Mix, count: int) -> Iterator[dict[str, Any]]:
    """Messages as the peer's command `put` takes them."""
    chance = random.Random(seed)
    for message, queue_id in islice(kinds.messages(seed, mix), count):
        named = {"UNIQ_KEY": message.unique_key, "TAGS": message.tags, "KEYS": " ".join(message.keys or ()) or None}
        yield {
            "topic": message.topic,
            "queue": queue_id,
            "bodyBase64": base64.b64encode(message.body).decode(),
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "reconsumeTimes": message.reconsume_times,
            "properties": {
                **(message.properties or {}),
                **{name: value for name, value in named.items() if value is not None},
            },
            "bornHost": str(message.born_host or LOCALHOST),
            "storeHost": str(chance.choice(STORE_HOSTS)),
            "pauseMs": PAUSE_MS if chance.random() < 1 / 13 else 0,
        }


def answer(out: Path, name: str, origin: str, store: Path, seed: int) -> None:
    """Ask RocketMQ about a store, or a damaged copy, which it opens and recovers, and keep the answers."""
    keys = ("k0", "k7", "k39", "键3", "键19", *(f"U{seed}-{number}" for number in range(0, 500, 99)), "missing")
    config = StoreConfig.from_properties(parse_properties(golden.CONFIG))
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        asked = list(kinds.questions(opened, keys))
    if origin == "rocksdb":
        # RocketMQ throws where a pull asks for no messages.
        asked = [question for question in asked if "get" not in question or question["get"][3] > 0]
    questions = store.parent / f"{name}.questions.jsonl"
    questions.write_bytes(as_lines(asked))
    answers = peer.run("ask", store, questions, *peer.GOLDEN_SETTINGS, *peer.GOLDEN_KINDS[origin])
    (out / f"{name}.jsonl.gz").write_bytes(gzip.compress(as_lines(answers), mtime=0))


def as_lines(objects: Iterable[dict[str, Any]]) -> bytes:
    """JSON objects, one a line."""
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in objects)


def pack(out: Path, name: str, store: Path, inside: Sequence[str] = ()) -> None:
    """Write NAME.tar.gz with a store, or with some of what is in it; holes of files stay holes."""
    members = [str(Path(store.name, part)) for part in inside or ("",)]
    named = f"--transform=s,^{store.name},{name},"
    tar = ("tar", "--sparse", "--create", "--gzip", "--file", str(out / f"{name}.tar.gz"), named)
    subprocess.run((*tar, "--directory", str(store.parent), *members), check=True)


def make_as_asked(
    make: Callable[[Path, int, int, Sequence[str]], Iterator[str]],
    description: str,
    names: Sequence[str],
    *,
    messages: int,
    messages_min: int,
    problem: str | None,
) -> None:
    """Make the stores that the command line asks for, and print the name of each that is done.

    Args:
        make: makes stores in a folder, with a seed and a number of messages, by their names.
        description: the program, in a sentence.
        names: the stores that there are.
        messages: messages a store by default.
        messages_min: the fewest messages that a store needs.
        problem: why RocketMQ cannot run; None if it can.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="where NAME.tar.gz and NAME.jsonl.gz go")
    parser.add_argument("--seed", type=int, default=1, help="other messages for another seed (default: 1)")
    parser.add_argument("--messages", type=int, default=messages, help=f"messages a store (default: {messages})")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    asked = parser.parse_args()
    if asked.messages < messages_min:
        parser.error(f"--messages {asked.messages}: a store needs at least {messages_min}")
    if problem is not None:
        parser.exit(1, f"{problem}\n")
    for name in make(asked.folder, asked.seed, asked.messages, asked.only):
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()


def main() -> None:
    """Make what the command line asks for."""
    about = "Have RocketMQ write golden stores and answer questions about them."
    make_as_asked(make, about, NAMES, messages=3000, messages_min=MESSAGES_MIN, problem=peer.available())


if __name__ == "__main__":
    main()
