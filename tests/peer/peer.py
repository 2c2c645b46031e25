"""Runs the peer: Apache RocketMQ's own store code, as the Java program in the folder `java`.

Maven builds it once per checkout into `java/target`, and again when its sources change. Nothing here starts
Java or Maven before the first `available()` or `run()`.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.switches import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

JAVA_DIR = Path(__file__).resolve().parent / "java"
TARGET_DIR = JAVA_DIR / "target"
ARCHIVE = TARGET_DIR / "classes.jsa"
JAVA_MIN = 17
BUILD_TIMEOUT_S = 900
RUN_TIMEOUT_S = 600
_ANSWERS_IN_LINES = ("ask", "dump", "hash", "put", "sql", "bloom", "filters", "unwrap", "waiting")


class Program(NamedTuple):
    """A Java program, with the RocketMQ that it drives: how Maven builds it, and how it takes a turn at a store."""

    pom: str
    folder: Path
    words: tuple[str, ...]
    """The command of Java for a turn: its own options, the class and perhaps a command."""
    sources: str = "src"
    """The folder of its sources."""

    @property
    def classpath(self) -> str:
        """Return the program's jar and all that it needs."""
        (jar,) = self.folder.glob("peer*-1.jar")
        return f"{jar}{os.pathsep}{self.folder / 'dependency'}{os.sep}*"


_OPENED = tuple(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "jdk.internal.ref"))
PROGRAMS = {
    "store": Program("pom.xml", TARGET_DIR, ("reput.peer.Peer", "turn")),
    "broker": Program("pom-broker.xml", TARGET_DIR / "broker", ("reput.peer.WholeBroker",)),
    # Java 17 lets it unmap files only with these options.
    "old": Program("pom-old.xml", TARGET_DIR / "old", (*_OPENED, "reput.peer.OldStore")),
    "client": Program("pom-client.xml", TARGET_DIR / "client", ("reput.clients.Scenario",), "client"),
    "client4": Program("pom-client4.xml", TARGET_DIR / "client4", ("reput.clients.Scenario",), "client"),
    "client5": Program("pom-client5.xml", TARGET_DIR / "client5", ("reput.clients5.Scenario",), "client"),
    "proxy": Program("pom-proxy.xml", TARGET_DIR / "proxy", ("org.apache.rocketmq.proxy.ProxyStartup",), "none"),
    "kafka": Program("pom-kafka.xml", TARGET_DIR / "kafka", ("reput.peer.KafkaTopics",)),
}
"""The store code of 5.5.1, which does all but turns as well; a whole broker 5.5.0; the store code of 4.9.7.

The clients 5.5.0, the newest in Maven Central, and 4.9.7 take no turns: they talk to brokers. Neither do the client
5.2.0, which speaks gRPC, and the proxy 5.5.0, which passes its calls on to a broker; nor does Apache Kafka, with which
benchmarks compare.
"""

GOLDEN_SETTINGS = (
    *("--commitlog-file", "1048576"),
    *("--cq-file", "6000"),
    *("--index-slots", "500"),
    *("--index-items", "2000"),
)
"""Options for stores laid out as the golden ones are."""

GOLDEN_KINDS: dict[str, tuple[str, ...]] = {
    "basic": (),
    "crash": (),
    "ext": (*words_of("ext"), "--set", "mappedFileSizeConsumeQueueExt=65536"),
    "batch": ("--batch-topic", "batches", "--set", "mapperFileSizeBatchConsumeQueue=4600"),
    "double": tuple(words_of("double")),
    "rocksdb": tuple(words_of("rocksdb")),
}
"""Further options, by the name of the golden store."""


class PeerError(RuntimeError):
    """The peer could not be built, or a command of it failed. The text holds what it wrote on stderr."""


@functools.cache
def available(program: str = "store") -> str | None:
    """Why a program of the peer cannot run here, or None once it is built and can.

    Raises:
        PeerError: our Java code has an error: tests that need it must not be skipped.
    """
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        return f"the peer needs Maven and Java {JAVA_MIN}: no {' and no '.join(missing)} on the PATH"
    version = _java_version()
    if version < JAVA_MIN:
        return f"the peer needs Java {JAVA_MIN}, the one on the PATH is {version}"
    try:
        build(program)
    except PeerError as problem:
        if "COMPILATION ERROR" in str(problem):
            raise
        return str(problem)
    return None


def build(name: str = "store") -> None:
    """Build a program if its sources changed since it was built.

    Raises:
        PeerError: Maven failed, for example because it could not reach a repository.
    """
    program = PROGRAMS[name]
    sources, stamp = _sources_digest(program), program.folder / "built-from"
    program.folder.mkdir(parents=True, exist_ok=True)
    with _locked(program.folder / "lock"):
        if stamp.is_file() and stamp.read_text() == sources:
            return
        # Offline first: it needs no network where Maven has everything already.
        outcomes = (_maven(program.pom, *offline) for offline in (("-o",), ()))
        failures = [failure for failure in _until_none(outcomes) if failure]
        if len(failures) == 2:
            raise PeerError(f"Maven cannot build the peer: {failures[-1]}")
        if name == "store":
            _archive_classes()
        stamp.write_text(sources)


def version_of(name: str) -> str:
    """Return the version that a program's pom names for what it drives."""
    found = re.search(r"<(?:rocketmq|kafka)\.version>([^<]+)<", (JAVA_DIR / PROGRAMS[name].pom).read_text())
    assert found is not None, f"{PROGRAMS[name].pom} names no version"
    return found.group(1)


def turn_words(
    name: str, store: Path, home: Path, *options: str, jvm: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Return the command of a program's turn at a store, see `Turn.java`; RocketMQ's own logs go to the folder `home`.

    `jvm`: options of Java; None for those of a quick start.

    Raises:
        PeerError: The program could not be built.
    """
    if jvm is None:
        jvm = _quick_start() if name == "store" else _QUICK_JVM
    return java_words(name, home, *PROGRAMS[name].words, str(store), *options, jvm=jvm)


def java_words(name: str, home: Path, *words: str, jvm: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command of a class of a program with its arguments, which has `home` as the user's.

    Raises:
        PeerError: The program could not be built.
    """
    build(name)
    homes = (f"-Duser.home={home}", f"-Djava.io.tmpdir={home}")
    return _command(*jvm, *homes, *words, classpath=PROGRAMS[name].classpath)


def measured_jvm(heap: str) -> tuple[str, ...]:
    """Return the options of a JVM that is measured: a heap of that size, whose pages are there from the start.

    RocketMQ's start script has the same option. Without it a thread that makes new objects waits for new pages until
    it has used the whole heap once: on a virtual machine for 14 us each, which halves or quarters Kafka's puts.
    """
    return f"-Xms{heap}", f"-Xmx{heap}", "-XX:+AlwaysPreTouch"


def run(
    command: str,
    *args: str | Path | int,
    stdin: bytes | None = None,
    heap: str | None = None,
    timeout_s: float = RUN_TIMEOUT_S,
) -> Any:
    """Run one command of the peer and return its JSON: a list where it answers in lines, else an object.

    Args:
        command: what to do, such as `write` or `ask`; see `Peer.java`.
        args: its arguments and options.
        stdin: what it reads.
        heap: the JVM's heap, fixed, as `-Xmx` spells it, for what is measured; None for what is only to start quickly.
        timeout_s: seconds after which it is killed.

    Raises:
        PeerError: it could not be built, failed or took too long.
    """
    build()
    jvm = _quick_start() if heap is None else measured_jvm(heap)
    words = _command(*jvm, "reput.peer.Peer", command, *map(str, args))
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, timeout=timeout_s, env=_environment(), check=False
        )
    except subprocess.TimeoutExpired as late:
        raise PeerError(f"peer {command} took more than {timeout_s} s") from late
    if done.returncode != 0:
        raise PeerError(f"peer {command} failed: {done.stderr.decode(errors='replace').strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return (
        lines if command in ("ask", "dump", "hash", "put", "sql", "bloom", "filters", "unwrap", "waiting") else lines[0]
    )


@contextmanager
def holding(store: Path, *args: str | Path | int) -> Iterator[Callable[[dict[str, Any]], Any]]:
    """The peer with a store open, as a live broker has it: what is given puts one message, and returns the answer."""
    build()
    words = _command(*_quick_start(), "reput.peer.Peer", "put", str(store), *map(str, args))
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        inlet, outlet = process.stdin, process.stdout

        def put(message: dict[str, Any]) -> Any:
            inlet.write(json.dumps(message).encode() + b"\n")
            inlet.flush()
            return json.loads(outlet.readline())

        try:
            yield put
        finally:
            inlet.close()
            outlet.read()
            process.wait(RUN_TIMEOUT_S)


def hash_codes(texts: Iterable[bytes]) -> list[int]:
    """Java's String.hashCode of each byte string, decoded as UTF-8 the way Java decodes."""
    lines = b"".join(base64.b64encode(text) + b"\n" for text in texts)
    codes: list[int] = run("hash", stdin=lines)
    return codes


# Index files are named by local time; the golden stores were written in UTC.
_JVM_OPTIONS = ("-Duser.timezone=UTC", "-Dfile.encoding=UTF-8")
_QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr")


def _environment() -> dict[str, str]:
    # Java 17 takes the encoding of file names (topics!) from the locale, and C means ASCII to it.
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def _command(*words: str, classpath: str | None = None) -> tuple[str, ...]:
    return ("java", *_JVM_OPTIONS, "-cp", classpath or PROGRAMS["store"].classpath, *words)


def _quick_start() -> tuple[str, ...]:
    """Java's options for a command of a moment: 1.0 s and 0.9 s of processor instead of 1.3 and 1.6."""
    shared = (f"-XX:SharedArchiveFile={ARCHIVE}",) if ARCHIVE.is_file() else ()
    return (*_QUICK_JVM, *shared)


def _archive_classes() -> None:
    """Keep the classes of a small job as Java has loaded them; without such an archive all goes, but slower."""
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        words = _command(*_QUICK_JVM, f"-XX:ArchiveClassesAtExit={ARCHIVE}", "reput.peer.Peer", "write", folder, "1000")
        subprocess.run(words, capture_output=True, timeout=RUN_TIMEOUT_S, env=_environment(), check=False)


def _java_version() -> int:
    banner = subprocess.run(("java", "-version"), capture_output=True, check=False).stderr
    found = re.search(rb'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else 0


def _sources_digest(program: Program) -> str:
    digest = hashlib.sha256()
    for path in sorted([JAVA_DIR / program.pom, *(JAVA_DIR / program.sources).rglob("*")]):
        if path.is_file():
            digest.update(path.relative_to(JAVA_DIR).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _maven(pom: str, *options: str) -> str | None:
    """Build; None on success, else Maven's first line of error."""
    words = ("mvn", "-q", "-B", "-f", pom, *options, "package")
    # The quick compiler and the small collector take half of the processor time: 4.7 s for one program instead of 10.2.
    environment = {"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ}
    try:
        done = subprocess.run(
            words, cwd=JAVA_DIR, capture_output=True, timeout=BUILD_TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no result within {BUILD_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if "ERROR" in line]
    return lines[0] if lines else f"exit status {done.returncode}"


def _until_none(outcomes: Iterator[str | None]) -> Iterator[str | None]:
    for outcome in outcomes:
        yield outcome
        if outcome is None:
            return


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
