"""Checks before a JVM is started for Spark: the master's URL and ports, Java, and the Python of the workers.

Each check fails within seconds, with a clear text. Spark itself tries a master for a minute, and names neither
JAVA_HOME nor PYSPARK_PYTHON.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from reput.errors import ConfigError, EngineError
from reput.files import fs
from reput.pipeline.spark import jvm_archive

WITHOUT_SPARK = "or run without Spark (--no-spark, spark=False in Python)"
JAVA_MIN = 17
_COUNT = r"(\*|[1-9][0-9]*)"
_ADDRESS = r"[^,:/@\s\[\]]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}"
_MASTER = re.compile(
    rf"local(\[{_COUNT}(,\s*[1-9][0-9]*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|spark://({_ADDRESS})(,({_ADDRESS}))*|yarn|k8s://.+"
)
STANDALONE = "spark://"
"""The beginning of the URL of a standalone cluster's master."""
_CONNECT_S = 8.0
_PROGRAM_S = 10.0
_RELEASE_LIMIT = 1 << 16
_INSTALL_JAVA = (
    f"Spark needs Java {JAVA_MIN} or later: on Debian and Ubuntu install openjdk-{JAVA_MIN}-jre-headless; "
    f"{WITHOUT_SPARK}"
)


def check(master: str) -> None:
    """Make all checks, those of this machine first.

    Raises:
        ConfigError: `master` is no Spark master URL.
        EngineError: Java or the workers' Python is unusable, or the master cannot be reached.
    """
    refuse_unknown_master(master)
    refuse_unusable_java()
    refuse_python_without_reput(master)
    refuse_unreachable_master(master)


def refuse_unknown_master(master: str) -> None:
    """Refuse a text that is no Spark master URL.

    Raises:
        ConfigError: It is no such URL.
    """
    if not _MASTER.fullmatch(master):
        raise ConfigError(
            f"--master {master}: not a Spark master URL. Give local, local[N], local[*], spark://HOST:PORT, "
            "spark://HOST:PORT,HOST:PORT, yarn or k8s://HOST:PORT"
        )


def refuse_unreachable_master(master: str) -> None:
    """Refuse a standalone cluster if none of its masters accepts a connection.

    Raises:
        EngineError: None does.
    """
    if not master.startswith(STANDALONE):
        return
    addresses = master.removeprefix(STANDALONE).split(",")
    answers: queue.Queue[tuple[str, str]] = queue.Queue()
    # Looking up a host's name may take longer than the time-out, and cannot be interrupted.
    for address in addresses:
        threading.Thread(target=_connect, args=(address, answers), daemon=True).start()
    failed, until = dict.fromkeys(addresses, f"no answer within {_CONNECT_S:.0f} s"), time.monotonic() + _CONNECT_S
    for _ in addresses:
        try:
            address, reason = answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if not reason:
            return
        failed[address] = reason
    reasons = "; ".join(f"{address}: {reason}" for address, reason in failed.items())
    raise EngineError(
        f"--master {master}: the Spark master cannot be reached ({reasons}). Check that it runs, its host and port "
        f"(7077 by default; the master's web page shows the URL), and firewalls; {WITHOUT_SPARK}"
    )


def _connect(address: str, answers: queue.Queue[tuple[str, str]]) -> None:
    """Put the address and "" into the queue if it accepts a connection, otherwise the address and the reason."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except TimeoutError:
        answers.put((address, f"no answer within {_CONNECT_S:.0f} s"))
    except (OSError, OverflowError, UnicodeError) as error:
        answers.put((address, getattr(error, "strerror", None) or str(error)))
    else:
        answers.put((address, ""))


def refuse_unusable_java() -> None:
    """Refuse a missing Java, or one that Spark cannot run on.

    Raises:
        EngineError: There is none, JAVA_HOME is wrong, or the Java is too old.
    """
    home, java = os.environ.get("JAVA_HOME"), jvm_archive.java_command()
    if java is None and home:
        raise EngineError(f"JAVA_HOME={home}: {_missing_in(Path(home))}. Correct or unset JAVA_HOME. {_INSTALL_JAVA}")
    if java is None:
        raise EngineError(f"no Java found (JAVA_HOME is not set, and no `java` is on the PATH). {_INSTALL_JAVA}")
    version = _java_version(Path(java))
    major = _major(version)
    if major is not None and major < JAVA_MIN:
        where = f"JAVA_HOME={home}" if home else f"{java} (on the PATH; JAVA_HOME is not set)"
        raise EngineError(f"{where}: this is Java {version}. {_INSTALL_JAVA}. JAVA_HOME names its folder")


def _missing_in(home: Path) -> str:
    if not fs.is_dir(home):
        return "no such folder"
    java = home / "bin" / "java"
    return f"{java} is no program that may be run" if fs.exists(java) else "the folder has no bin/java"


def _java_version(java: Path) -> str:
    """Return the version of a Java from its file `release`, or from the program; "" if neither gives it."""
    home = java.resolve().parent.parent
    # A JRE 8 is in the folder of its JDK.
    for folder in (home, home.parent):
        data = fs.read_bytes(folder / "release", _RELEASE_LIMIT) or b""
        found = re.search(rb'^JAVA_VERSION="([^"]+)"', data, re.MULTILINE)
        if found:
            return found[1].decode("ascii", "replace")
    try:
        run = subprocess.run(  # noqa: S603 - the Java that Spark starts
            [java, "-version"], capture_output=True, text=True, timeout=_PROGRAM_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    printed = re.search(r'version "([^"]+)"', run.stderr + run.stdout)
    return printed[1] if printed else ""


def _major(version: str) -> int | None:
    """Return the 17 of 17.0.9, and the 8 of 1.8.0_392; None if the text is no version."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else None


def refuse_python_without_reput(master: str) -> None:
    """Refuse a PYSPARK_PYTHON of another Python that cannot import reput, if the workers run on this machine.

    Raises:
        EngineError: It cannot import reput, or is no program.
    """
    python = os.environ.get("PYSPARK_PYTHON")
    if not python or not master.startswith("local"):
        return
    found = shutil.which(python)
    if found is not None and Path(found).absolute() == Path(sys.executable).absolute():
        return
    reason = "no such program" if found is None else _import_error(found)
    if reason:
        raise EngineError(
            f"PYSPARK_PYTHON={python}: Spark's workers cannot import reput with it ({reason}). Install reput there, or "
            f"unset PYSPARK_PYTHON: the workers then use {sys.executable}"
        )


def _import_error(python: str) -> str:
    """Return the reason why a Python cannot import reput; "" if it can."""
    try:
        run = subprocess.run(  # noqa: S603 - the Python that Spark starts
            [python, "-c", "import reput"], capture_output=True, text=True, timeout=_PROGRAM_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PROGRAM_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    lines = run.stderr.strip().splitlines()
    return (lines[-1] if lines else f"exit code {run.returncode}") if run.returncode else ""
