"""A session of Spark Connect reads, streams and checks a store as a classic one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from support import stores
from support.processes import quick_jvm
from support.records import LogBuilder
from support.search import takes_long

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import reput

store, out = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
kind = type(spark).__module__
reput.register(spark)
frame = spark.read.format("rocketmq").option("topic", "orders").load(store)
offsets = [row[0] for row in frame.where("queueOffset >= 15").select("queueOffset").collect()]
stream = spark.readStream.format("rocketmq").option("topic", "clicks").option("startingOffsets", "earliest").load(store)
sink = stream.select("body").writeStream.format("parquet").option("checkpointLocation", out + "/checkpoint")
query = sink.trigger(availableNow=True).start(out + "/rows")
assert query.awaitTermination(200)
report = reput.check(store, spark=spark)
spark.stop()
json.dump({"kind": kind, "offsets": offsets, "sound": report.sound}, open(out + "/found.json", "w"))
"""


@takes_long
@pytest.mark.spark
def test_spark_connect(tmp_path: Path) -> None:
    """A batch with a filter, a stream with availableNow, and a check run through a Spark Connect server."""
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    log = LogBuilder(file_size=1 << 16)
    for number in range(40):
        log.message("orders" if number % 2 else "clicks", body=b"%d" % number)
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, None)
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    out.mkdir()
    environment = {
        **os.environ,
        **quick_jvm(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark takes a port that is free, where this is set.
        "SPARK_TESTING": "1",
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false --driver-memory 512m pyspark-shell",
    }
    environment.pop("SPARK_REMOTE", None)
    run = subprocess.run(
        [sys.executable, str(program), str(store), str(out)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads((out / "found.json").read_text())
    assert found == {"kind": "pyspark.sql.connect.session", "offsets": [15, 16, 17, 18, 19], "sound": True}
    bodies = pq.read_table(out / "rows")["body"].to_pylist()
    assert sorted(map(int, bodies)) == list(range(0, 40, 2))
