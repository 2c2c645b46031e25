"""The class-data archive of Spark's driver JVM: made once, it takes more than a second off every later start.

The JVM checks an archive against its own version and class path and does without when they differ; but half an archive
kills it. So one is written beside, synced and renamed, and its name says its size.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from reput.files import fs

_TIMEOUT_S = 180
_MAKER = """
import sys
from reput.pipeline.spark import session
context = session.start_context(extra_java=f"-XX:ArchiveClassesAtExit={sys.argv[1]}", use_archive=False)
context.parallelize([1, 2], 2).mapPartitions(list).collect()
process = context._gateway.proc
context.stop()
context._gateway.shutdown()
process.stdin.close()
process.wait()
"""


def java_command() -> str | None:
    """The `java` that PySpark starts: JAVA_HOME's, else the one on the PATH; None without."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _stem() -> Path | None:
    """Where archives for this Java and this PySpark lie, but for their size and ending; None without Java."""
    import pyspark

    java = java_command()
    if java is None:
        return None
    real = Path(java).resolve()
    status = real.stat()
    # A Java that was updated in place has another size or time: its old archive is then of no use.
    identity = f"{real} {status.st_size} {status.st_mtime_ns} {pyspark.__file__} {pyspark.__version__}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "reput" / f"spark-{pyspark.__version__}-{digest}"


def usable_archive() -> Path | None:
    """The archive, where there is one and it is whole."""
    stem = _stem()
    if stem is None:
        return None
    for path in stem.parent.glob(f"{stem.name}-*.jsa"):
        if path.stem == f"{stem.name}-{path.stat().st_size}":
            return path
    return None


def make_archive() -> Path | None:
    """The archive, made by one short Spark run where there is none yet; None when that did not work.

    Raises:
        AccessError: the cache folder cannot be written.
    """
    stem = _stem()
    if stem is None or (archive := usable_archive()) is not None:
        return None if stem is None else archive
    fs.make_dirs(stem.parent)
    fresh = stem.with_name(f"{stem.name}.{os.getpid()}.new")
    try:
        command = [sys.executable, "-c", _MAKER, str(fresh)]
        subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603 - our own code
        if not fresh.exists():
            return None
        fs.sync_path(fresh)
        fs.rename(fresh, stem.with_name(f"{stem.name}-{fresh.stat().st_size}.jsa"))
    except subprocess.TimeoutExpired:
        return None
    finally:
        fs.remove_file(fresh)
    return usable_archive()
