"""The class-data archive of Spark's driver JVM: made once, it takes a second off every later start.

The JVM checks the archive against its own version and class path, and does without when they have changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from reput.files import fs

_TIMEOUT_S = 120


def java_command() -> str | None:
    """The `java` that PySpark starts: JAVA_HOME's, else the one on the PATH; None without."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which(str(Path(home) / "bin" / "java"))
    return shutil.which("java")


def archive_path() -> Path | None:
    """Where the archive of this Java and this PySpark lies, whether it is there or not; None without Java."""
    import pyspark

    java = java_command()
    if java is None:
        return None
    real = os.path.realpath(java)
    status = os.stat(real)
    # A Java that was updated in place has another size or time: its old archive is then of no use.
    identity = f"{real} {status.st_size} {status.st_mtime_ns} {pyspark.__file__} {pyspark.__version__}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "reput" / f"spark-{pyspark.__version__}-{digest}.jsa"


def make_archive(path: Path) -> bool:
    """Make the archive by one short Spark run; returns whether it is there now.

    It is written beside and renamed, so that no JVM ever maps half of one.
    """
    import sys

    fs.make_dirs(path.parent)
    fresh = path.with_suffix(f".{os.getpid()}.new")
    code = (
        "from reput.pipeline import session\n"
        f"context = session.start_context(extra_java='-XX:ArchiveClassesAtExit={fresh}', use_archive=False)\n"
        "context.parallelize([1, 2], 2).mapPartitions(list).collect()\n"
        "gateway = context._gateway\n"
        "gateway.shutdown()\n"
        "gateway.proc.stdin.close()\n"
        f"gateway.proc.wait({_TIMEOUT_S})\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False
    )
    if not fresh.exists():
        return False
    fs.rename(fresh, path)
    return True
