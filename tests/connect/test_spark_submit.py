"""The format in plain PySpark: found by its module's name, without a call of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from support import golden
from support.processes import quick_jvm
from support.search import takes_long

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
frame = spark.read.format("rocketmq").option("topic", "audit").load(sys.argv[1])
rows = frame.where("queueOffset > 20").select("queueOffset").collect()
assert not spark.read.format("rocketmq").option("subscribePattern", "nope.*").load(sys.argv[1]).take(1)
refused = []
for name, value in ("nameServer", "localhost:9876"), ("topic", "audits"):
    try:
        spark.read.format("rocketmq").option(name, value).load(sys.argv[1]).take(1)
    except Exception as error:
        refused.append(str(error))
json.dump({"offsets": sorted(row[0] for row in rows), "refused": refused}, open(sys.argv[2], "w"))
spark.stop()
"""


def last_line(error: str) -> str:
    """The line before SQLSTATE, which says what is wrong: a traceback is above it, and nothing else below."""
    *_, line, state = error.strip().splitlines()
    assert state.strip().startswith("SQLSTATE")
    return line


@pytest.mark.spark
@pytest.mark.golden
@takes_long
def test_spark_submit(tmp_path: Path) -> None:
    """`spark-submit` runs a program that knows nothing but the format's name; errors and warnings come in our words."""
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    program, out = tmp_path / "program.py", tmp_path / "out.json"
    program.write_text(PROGRAM)
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **quick_jvm(),
        "PYTHONPATH": os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-memory", "512m", str(program), str(golden.shared("basic")), str(out)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(out.read_text())
    ends = [line["max"] for line in golden.answers("basic") if line.get("queue", [""])[0] == "audit"]
    assert found["offsets"] == sorted(offset for end in ends for offset in range(21, end))
    broker, topic = (last_line(text) for text in found["refused"])
    assert broker.startswith("reput.errors.ConfigError: option nameServer: belongs to a source that asks a broker.")
    assert topic.startswith("reput.errors.ConfigError: option topic: no topic audits in ")
    assert "Near it: audit." in topic
    assert "subscribePattern=nope.*: matches no topic" in run.stderr
