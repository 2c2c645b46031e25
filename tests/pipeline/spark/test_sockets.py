"""The sockets of a Spark that reput starts: on the loopback, with authentication."""

from __future__ import annotations

import ipaddress
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from reput.pipeline.spark import session

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_spark_listens_on_the_loopback_alone(spark: SparkContext) -> None:
    """The JVM, its daemons and workers listen on no address but the loopback's."""
    assert spark.parallelize(range(4), 4).map(lambda number: number + 1).sum() == 10
    gateway = spark._gateway
    assert gateway is not None
    jvm = psutil.Process(gateway.proc.pid)
    processes = [psutil.Process(), jvm, *jvm.children(recursive=True)]
    listening = [
        found.laddr.ip
        for process in processes
        for found in process.net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    ]
    assert listening
    hosts = [ipaddress.ip_address(host.removeprefix("::ffff:")) for host in listening]
    assert not [host for host in hosts if not host.is_loopback]


@pytest.mark.spark
def test_spark_asks_for_a_secret(spark: SparkContext) -> None:
    """Spark's own sockets need a secret; the workers' sockets are in a folder that only this user may enter."""
    conf = spark.getConf()
    assert conf.get("spark.authenticate") == "true"
    folder = conf.get("spark.python.unix.domain.socket.dir")
    assert folder is not None
    status = Path(folder).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.geteuid())


@pytest.mark.parametrize(("master", "secret"), [("local[2]", True), ("local", True), ("spark://host:7077", False)])
def test_a_cluster_decides_about_its_secrets(master: str, secret: bool) -> None:
    """Only a Spark in this process gets the setting: a cluster's secret is the cluster's."""
    assert ("spark.authenticate" in session.settings(master, use_archive=False)) == secret
