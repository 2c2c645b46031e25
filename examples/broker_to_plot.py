"""From a broker's files to a plot, in ten minutes and in notebook cells.

    python examples/broker_to_plot.py /path/to/store [plot.png]

Without a path a small store is made first, which goes when the program ends. Nothing is written into yours, and its
broker may run meanwhile.
"""

# %% A store: yours, or one of 20,000 orders and payments over an hour.
from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pyarrow as pa

import reput


def sample_store(folder: Path) -> Path:
    """A store as a shop would fill it; the time when a message was born is its time of day."""
    chance, begin_ms = random.Random(7), 1_790_000_000_000
    times = sorted(begin_ms + int(chance.betavariate(2, 3) * 3_600_000) for _ in range(20_000))
    rows = {
        "topic": [chance.choice(["orders", "orders", "payments"]) for _ in times],
        "queue_id": [chance.randrange(4) for _ in times],
        "body": [f'{{"cents": {chance.randrange(100, 9_000)}}}'.encode() for _ in times],
        "tags": [chance.choice(["web", "app", "shop"]) for _ in times],
        "keys": [f"o-{number}" for number in range(len(times))],
        "born_timestamp": times,
    }
    with reput.MessageStore.open(folder, create=True) as store:
        store.put_messages(pa.table(rows))
    return folder


made = tempfile.TemporaryDirectory(prefix="reput-example-")
path = Path(sys.argv[1]) if len(sys.argv) > 1 else sample_store(Path(made.name) / "store")
picture = Path(sys.argv[2] if len(sys.argv) > 2 else "broker_to_plot.png")
try:
    print(f"store: {path}, {reput.info(path).log.max_offset:,} bytes of log")
except reput.ReputError as error:
    sys.exit(f"error: {error}")

# %% Spark, with the store as a table. In a notebook this is your session, and `register` is all that is ours.
from pyspark.sql import SparkSession  # noqa: E402 - a cell of its own

from reput.pipeline.spark.session import start_context  # noqa: E402

spark = SparkSession(start_context("local[2]"))
reput.register(spark)
messages = spark.read.format("rocketmq").option("columns", "topic,tags,bornTimestamp,storeSize,body").load(str(path))
messages.printSchema()

# %% How much of what is in there?
messages.createOrReplaceTempView("messages")
spark.sql(
    "SELECT topic, tags, count(*) AS messages, sum(storeSize) AS bytes FROM messages GROUP BY 1, 2 ORDER BY 1, 2"
).show()

# %% What does a body say? (If yours hold JSON with other fields, change the path.)
spark.sql(
    "SELECT topic, round(avg(get_json_object(string(body), '$.cents')) / 100, 2) AS mean FROM messages GROUP BY 1"
).show()

# %% Messages a minute, by topic.
minutes = spark.sql("""
    SELECT topic, date_trunc('minute', bornTimestamp) AS minute, count(*) AS messages
    FROM messages GROUP BY 1, 2 ORDER BY 2
""").collect()
figure, axes = plt.subplots(figsize=(9, 4))
for topic in sorted({row["topic"] for row in minutes}):
    points = [(row["minute"], row["messages"]) for row in minutes if row["topic"] == topic]
    axes.plot(*zip(*points, strict=True), marker=".", label=topic)
axes.set_ylabel("messages a minute")
axes.legend(fontsize="small")
figure.autofmt_xdate()
figure.savefig(picture, dpi=120)
print(f"plot: {picture}")

# %% For the lake: `reput export STORE --folder DIR` writes the same as Parquet, by topic and day.
spark.stop()
