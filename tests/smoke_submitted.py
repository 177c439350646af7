"""An application that `spark-submit` gives to a cluster, with the workers' Python as an archive.

    python smoke_submitted.py ARCHIVE

starts a standalone master and two workers on addresses of their own, without bsjoin in their
Python, and submits this file to them. ``make installs`` runs it with the Python of an environment
that was made just now; ARCHIVE is what venv-pack made of one without Spark.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin import BatchTable

_DEPLOY = "org.apache.spark.deploy"
_WORKERS = ("127.0.0.2", "127.0.0.3")
_SPARK = Path(pyspark.__file__).parent
_STARTS_S = 60


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers, which are processes in a folder."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    settings = {**os.environ, "SPARK_HOME": str(_SPARK), "SPARK_DAEMON_MEMORY": "256m"}
    servers = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for address in _WORKERS:
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / address)]
        servers.append(["worker.Worker", "--host", address, *own, url])
    with contextlib.ExitStack() as running:
        for name, *arguments in servers:
            command = [
                str(_SPARK / "bin" / "spark-class"),
                f"{_DEPLOY}.{name}",
                "--webui-port",
                "0",
            ]
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=folder,
                env=settings,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            running.callback(process.wait)
            running.callback(process.terminate)
            if name == servers[0][0]:
                _wait_for(port)
        yield url


def _wait_for(port: int) -> None:
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"smoke_submitted: no master on port {port} after {_STARTS_S} s")


def submitted(archive: Path, folder: Path) -> str:
    """Submit this file as the documentation says, and return what it printed."""
    program = str(shutil.copy(__file__, folder / "app.py"))
    with cluster(folder) as url:
        command = [
            str(_SPARK / "bin" / "spark-submit"), "--master", url,
            "--archives", f"{archive}#environment",
            "--conf", "spark.pyspark.python=./environment/bin/python",
            "--conf", "spark.pyspark.driver.python=" + sys.executable,
            "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false",
            program, "application", str(folder / "table"),
        ]  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"smoke_submitted: {done.stdout}{done.stderr[-5_000:]}")
    return done.stdout


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, df.collect()), key=repr)


def application(path: str) -> None:
    """Build a table on the executors, and join with it on both, in the JVM and in Python."""
    spark = SparkSession.builder.config(
        "spark.scheduler.minRegisteredResourcesRatio", "1.0"
    ).getOrCreate()
    context = spark.sparkContext
    paths = context.parallelize(range(8), 8).map(lambda _: sys.executable).distinct().collect()
    hosts = context.parallelize(range(8), 8).map(lambda _: os.getcwd().split("/")[-3]).distinct()
    assert set(hosts.collect()) == set(_WORKERS), hosts.collect()
    assert all("environment" in path for path in paths), paths
    table = spark.range(1000).selectExpr("id", "concat('name-', id) AS name")
    stored = BatchTable.build(table.repartition(4), on="id", path=path)
    keys = spark.range(990, 1010, numPartitions=8)
    wanted = rows(keys.join(table, "id", "left"))
    for runtime in ("jvm", "python"):
        spark.conf.set("spark.bsjoin.runtime", runtime)
        assert rows(stored.join(keys, how="left")) == wanted, runtime
    print(f"submitted: joins on {len(_WORKERS)} hosts are right with bsjoin {bsjoin.__version__}")
    spark.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bsjoin-submitted-") as folder:
        print(submitted(Path(sys.argv[1]).resolve(), Path(folder)), end="")


if __name__ == "__main__":
    if sys.argv[1] == "application":
        application(sys.argv[2])
    else:
        main()
