"""A standalone Spark cluster on this machine: workers on addresses, and of sizes, of their own.

The master and the workers live in the JVM of the driver, as in Spark's ``local-cluster``, which
knows one address and one size only. Their executors are processes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def start(gateway: Any, folder: Path, cores: Sequence[int], resources: Sequence[str]) -> str:
    """Start a master and workers on 127.0.0.2 and following; the master's URL."""
    jvm = gateway.jvm
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, jvm.SparkConf())
    url = f"spark://127.0.0.1:{master._1().address().port()}"
    for count, resource in zip(cores, resources, strict=True):
        add_worker(gateway, folder, url, count, resource)
    return url


def add_worker(gateway: Any, folder: Path, master: str, cores: int, resource: str = "") -> str:
    """Start one more worker, which alone may have a resource; its address."""
    jvm = gateway.jvm
    number = len(list(folder.glob("worker-*")))
    (own := folder / f"worker-{number}").mkdir()
    masters = gateway.new_array(jvm.String, 1)
    masters[0] = master
    conf = jvm.SparkConf()
    if resource:
        conf.set(f"spark.worker.resource.{resource}.amount", "9")
        conf.set(
            f"spark.worker.resource.{resource}.discoveryScript", str(_discovery(folder, resource))
        )
    address = f"127.0.0.{number + 2}"
    jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
        address, 0, 0, cores, 2048, masters, str(own),
        jvm.scala.Option.apply(number), conf, jvm.scala.Option.empty(),
    )  # fmt: skip
    return address


def process_of(spark: SparkSession, address: str) -> int:
    """The process of an application's executor on a worker.

    The driver's port tells applications apart: two masters may give the same identifier.
    """
    port = spark.sparkContext.getConf().get("spark.driver.port")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().split("\0")
            except OSError:
                continue
            given = dict(itertools.pairwise(words))
            driver = given.get("--driver-url", "").rpartition(":")[2]
            if (given.get("--hostname"), driver) == (address, port):
                return int(entry.name)
    raise AssertionError(f"no executor on {address}")


def _discovery(folder: Path, resource: str) -> Path:
    """The script that tells a worker what it has of a resource."""
    script = folder / f"{resource}.sh"
    told = json.dumps({"name": resource, "addresses": [str(k) for k in range(9)]})
    script.write_text(f"#!/bin/sh\necho '{told}'\n")
    script.chmod(0o755)
    return script
