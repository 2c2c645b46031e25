"""Checks before a JVM is started: each wrong thing is named within seconds, with the remedy."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import reput
from reput.errors import ConfigError, EngineError
from reput.pipeline.spark import preflight
from reput.pipeline.spark.preflight import refuse_unknown_master, refuse_unreachable_master, refuse_unusable_java

MASTERS = (
    "local", "local[1]", "local[*]", "local[4,2]", "local-cluster[2, 1, 1024]", "spark://a:7077",
    "spark://a:7077,[::1]:1", "yarn", "k8s://x:1",
)  # fmt: skip
NO_MASTERS = (
    "", "foo", "local[0]", "local[]", "local[-1]", "local[x]", "localhost:7077", "spark://", "spark://a", "spark://a:b",
    "spark://a:7077,b", "sparc://a:7077",
)  # fmt: skip


@pytest.mark.parametrize("master", MASTERS)
def test_masters(master: str) -> None:
    """Every form of Spark's master URL passes."""
    refuse_unknown_master(master)


@pytest.mark.parametrize("master", NO_MASTERS)
def test_no_masters(master: str) -> None:
    """A text that is no master URL is refused by name, with the forms that there are."""
    with pytest.raises(ConfigError, match=r"not a Spark master URL\. Give local, .*spark://HOST:PORT"):
        refuse_unknown_master(master)


def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_a_master_that_refuses_is_named_at_once() -> None:
    """A refused connection is an error that names address, reason and what to check."""
    begun = time.monotonic()
    address = f"127.0.0.1:{closed_port()}"
    with pytest.raises(EngineError, match=rf"cannot be reached \({address}: Connection refused\)\. Check that it runs"):
        refuse_unreachable_master(f"spark://{address}")
    assert time.monotonic() - begun < 5


def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that nobody knows is reported in the resolver's words."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    with pytest.raises(EngineError, match="nohost:7077: Name or service not known"):
        refuse_unreachable_master("spark://nohost:7077")


def test_a_master_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that swallows packets, or a name server that does not answer, costs no more than the time limit."""
    is_over = threading.Event()

    def swallows(*_: object, **__: object) -> None:
        is_over.wait(20)
        raise TimeoutError

    monkeypatch.setattr(preflight, "_CONNECT_S", 0.2)
    monkeypatch.setattr(socket, "create_connection", swallows)
    begun = time.monotonic()
    with pytest.raises(EngineError, match="a:7077: no answer within 0 s; b:7077: no answer"):
        refuse_unreachable_master("spark://a:7077,b:7077")
    assert time.monotonic() - begun < 10
    is_over.set()


def test_one_master_of_several_is_enough() -> None:
    """With a standby master one that takes connections suffices; other kinds of masters are not asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refuse_unreachable_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{port}")
        refuse_unreachable_master(f"spark://127.0.0.1:{port}")
    for master in ("local", "local[*]", "yarn", "k8s://nohost:1"):
        refuse_unreachable_master(master)


def fake_java(home: Path, version: str, *, release: bool = False) -> Path:
    """A folder with a `java` that reports this version, in its own words or in a file."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\n" if release else f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020' >&2\n")
    java.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, release: bool) -> None:
    """A Java below 17 is named with its version and its place, which is JAVA_HOME or the PATH."""
    home = fake_java(tmp_path / "jdk", version, release=release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EngineError, match=rf"JAVA_HOME={home}: this is Java {version}\. Spark needs Java 17 or later"):
        refuse_unusable_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=os.pathsep)
    with pytest.raises(EngineError, match=rf"{home}/bin/java \(on the PATH; JAVA_HOME is not set\): this is Java"):
        refuse_unusable_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea", "what?"])
def test_a_java_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Java 17 and later pass, and so does one whose version nobody can read: Spark decides."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    refuse_unusable_java()


def test_a_java_home_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing folder, one without Java, a Java that may not be run, and no Java at all have errors of their own."""
    home = tmp_path / "jdk"
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EngineError, match=rf"JAVA_HOME={home}: no such folder\. Correct or unset JAVA_HOME"):
        refuse_unusable_java()
    (home / "bin").mkdir(parents=True)
    with pytest.raises(EngineError, match=f"JAVA_HOME={home}: the folder has no bin/java"):
        refuse_unusable_java()
    (home / "bin" / "java").write_text("")
    with pytest.raises(EngineError, match="bin/java is no program that may be run"):
        refuse_unusable_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"no Java found \(JAVA_HOME is not set.*openjdk-17-jre-headless; or run"):
        refuse_unusable_java()


def test_workers_without_reput(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PYSPARK_PYTHON that is no program, or cannot import reput, is named; a cluster's is not asked."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    preflight.refuse_python_without_reput("local[*]")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    with pytest.raises(EngineError, match=rf"PYSPARK_PYTHON={bare}: .*No module named 'reput'.*Install reput there"):
        preflight.refuse_python_without_reput("local[2]")
    preflight.refuse_python_without_reput("spark://a:7077")
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    with pytest.raises(EngineError, match="no such program"):
        preflight.refuse_python_without_reput("local")


def test_the_verb_needs_no_jvm_for_that(tmp_path: Path) -> None:
    """`reput check --master` with a master that is not there: exit code 2, words, and no traceback."""
    reput.MessageStore.open(tmp_path / "s", create=True).close()
    arguments = ["check", str(tmp_path / "s"), "--master", f"spark://127.0.0.1:{closed_port()}"]
    command = [sys.executable, "-m", "reput", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2, run.stderr
    assert "the Spark master cannot be reached" in run.stderr
    assert "Traceback" not in run.stderr
