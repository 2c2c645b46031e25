"""The class-data archive of Spark's driver JVM: it is made once, and saves more than a second at every later start.

The JVM ignores an archive of another version or class path, but a truncated archive crashes it. So an archive is
written under another name, synced and renamed, and its name contains its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
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
    """Return the `java` that PySpark starts: that of JAVA_HOME, otherwise that on PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _stem() -> Path | None:
    """Return the path of archives for this Java and this PySpark, without size and suffix; None without Java."""
    import pyspark

    java = java_command()
    if java is None:
        return None
    real = Path(java).resolve()
    status = real.stat()
    # A Java that was updated in place has another size or time, and needs a new archive. So does a PySpark that was
    # installed again: Java checks the time of each jar, and starts without any archive if one differs. Then a rebuild
    # of a small store takes 9.4 s, not 5.2.
    jars = Path(pyspark.__file__).parent / "jars"
    installed = max((jar.stat().st_mtime_ns for jar in jars.glob("*.jar")), default=0)
    identity = f"{real} {status.st_size} {status.st_mtime_ns} {pyspark.__file__} {pyspark.__version__} {installed}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "reput" / f"spark-{pyspark.__version__}-{digest}"


def usable_archive() -> Path | None:
    """Return the archive if there is a complete one."""
    stem = _stem()
    if stem is None:
        return None
    for path in stem.parent.glob(f"{stem.name}-*.jsa"):
        if path.stem == f"{stem.name}-{path.stat().st_size}":
            return path
    return None


def make_archive() -> Path | None:
    """Return the archive; make it by one short Spark run if there is none. None if that fails or takes 3 minutes.

    Raises:
        AccessError: The cache folder cannot be written.
    """
    stem = _stem()
    if stem is None or (archive := usable_archive()) is not None:
        return None if stem is None else archive
    fs.make_dirs(stem.parent)
    fresh = stem.with_name(f"{stem.name}.{os.getpid()}.new")
    try:
        _run_maker(fresh)
        if not fresh.exists():
            return None
        fs.sync_path(fresh)
        fs.rename(fresh, stem.with_name(f"{stem.name}-{fresh.stat().st_size}.jsa"))
    except subprocess.TimeoutExpired:
        return None
    finally:
        fs.remove_file(fresh)
    return usable_archive()


def _run_maker(fresh: Path) -> None:
    """Have a Spark run write the archive; nothing of the run is left afterwards, its JVM included.

    Raises:
        TimeoutExpired: It took too long.
    """
    command = [sys.executable, "-c", _MAKER, str(fresh)]
    null = subprocess.DEVNULL
    # The run is a process group of its own, which PySpark's JVM joins. A JVM that outlives the maker would write the
    # archive after its place was cleared.
    maker = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)  # noqa: S603 - ours
    try:
        maker.wait(_TIMEOUT_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(maker.pid, signal.SIGKILL)
        maker.wait()
