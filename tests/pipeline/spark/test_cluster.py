"""A real standalone cluster, a master and two workers on this machine, builds the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from support import golden, stores
from support.processes import quick_jvm
from support.search import takes_long

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.golden]

START_S = 60
ATTEMPT_PAUSE_S = 0.1

JOB = """
import json, sys
from pyspark.sql import SparkSession
from reput.cli.main import run
from reput.pipeline.spark import session
master, rebuilt, followed, config = sys.argv[1:]
options = ["--master", master, "--config", config, "--json"]
assert run(["rebuild", rebuilt, "--split-mb", "0.3", *options]) == 0
assert run(["follow", followed, "--until-caught-up", *options]) == 0
context = session.start_context(master)
assert context.master == master
hosts = context._jsc.sc().getExecutorMemoryStatus().size() - 1
spark = SparkSession(context)
frame = spark.read.format("rocketmq").option("config", config).option("minPartitions", 4).load(rebuilt)
rows = frame.groupBy("topic").count().collect()
print(json.dumps({"executors": hosts, "topics": {row["topic"]: row["count"] for row in rows}}))
spark.stop()
"""


class Cluster:
    """The processes of a cluster, each with its log; they are ended by their own ids."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self.home = Path(pyspark.__file__).parent
        self.source = Path(reput.__file__).parents[1]
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Workers and driver run the same Python with the same reput."""
        return {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self.folder / "work"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(self.source),
            **quick_jvm(),
        }

    def start(self, name: str, kind: str, *arguments: str) -> Path:
        """Start a master or worker; returns the file that it logs to."""
        log = self.folder / f"{name}.log"
        command = [self.home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments]
        with log.open("wb") as output:
            # spark-class replaces itself by the JVM, so the process that is started is the one to end.
            process = subprocess.Popen(command, stdout=output, stderr=output, env=self.environment)
        self.processes.append(process)
        return log

    def wait_for(self, log: Path, pattern: str) -> str:
        """The first group of `pattern` once the log has it; a cluster that does not start is a failure."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found[1]
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(ATTEMPT_PAUSE_S)
        raise AssertionError(f"the cluster does not start:\n{log.read_text(errors='replace')[-3000:]}")

    def end(self) -> None:
        """End what was started."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a cluster with two workers, and the environment for its drivers.

    Each worker offers a core and 1 GiB, what an executor asks for by default; the JVMs take far less.
    """
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        log = cluster.start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = cluster.wait_for(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", address)
        for worker in [cluster.start(f"worker{number}", "worker.Worker", *options) for number in range(2)]:
            cluster.wait_for(worker, r"(Successfully registered) with master")
        yield address, cluster.environment
    finally:
        cluster.end()


@takes_long
def test_a_cluster_rebuilds_follows_and_reads(master: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    """Executors that share the files write the very bytes that RocketMQ wrote, and count its messages."""
    address, environment = master
    stores_given = [golden.unpack("crash", tmp_path / name) for name in ("rebuilt", "followed")]
    for name in ("consumequeue", "index"):
        shutil.rmtree(stores_given[1] / name)
    config = tmp_path / "broker.conf"
    config.write_text(golden.CONFIG + "\n")
    done = subprocess.run(
        [sys.executable, "-c", JOB, address, *stores_given, config],
        env=environment,
        check=False,
        capture_output=True,
        timeout=180,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rebuilt, *_, followed, cluster = map(json.loads, done.stdout.splitlines())
    messages = golden.facts("crash").messages
    assert rebuilt["messages"] == messages
    assert (followed["messages"], followed["lag_bytes"]) == (messages, 0)
    wanted = golden.shared("crash")
    for store in stores_given:
        assert list(golden.queue_files(store)) == list(golden.queue_files(wanted))
        assert [data for _, data in golden.index_files(store)] == [data for _, data in golden.index_files(wanted)]
    assert stores.leftovers(stores_given[0]) == []
    topics: dict[str, int] = {}
    with reput.MessageStore.open(stores_given[0], reput.StoreConfig.from_file(config), read_only=True) as opened:
        for queue in opened.queues():
            topics[queue.topic] = topics.get(queue.topic, 0) + queue.max_offset - queue.min_offset
    assert cluster == {"executors": 2, "topics": topics}
