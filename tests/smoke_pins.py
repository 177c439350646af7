"""Pins on a standalone cluster in one version of Spark, without pytest: all land, none blocks.

``scripts/matrix.py`` runs it with other versions than the installed one.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from sessions import CLUSTER, session
from standalone import start

from scheduling.spark import LeverWarning, pin
from scheduling.spark.internals import StatusStore, wait_for_executors
from scheduling.spark.pins import waiting
from scheduling.spark.seen import executors_of, tasks_of

FOREVER_S = 9_000.0


def checks(folder: Path) -> None:
    """Tasks run where they are pinned; those of a released executor run elsewhere."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    SparkContext._ensure_initialized(conf=SparkConf().setAll(CLUSTER.items()))
    spark = session(start(SparkContext._gateway, folder, (1, 1), ("", "")), CLUSTER)
    status = StatusStore(spark)
    while len(at := executors_of(status.executors())[0]) < 2:
        spark.range(1).count()
    context: Any = spark.sparkContext
    for tag, release in (("stay", False), ("go", True)):
        pinned = pin(spark.range(0, 60, 1, 6), [at[i % 3 // 2] for i in range(6)])
        context.addJobTag(tag)
        with waiting(spark, pinned, FOREVER_S):
            if release:
                assert context._jsc.sc().killExecutor(at[0].id)
            assert pinned.df.count() == 60
        landed = tasks_of(status, pinned.rdd, len(pinned.requested), tag)
        context.removeJobTag(tag)
        wanted = [at[1 if release else i % 3 // 2].id for i in range(6)]
        assert [task.executor for task in landed] == wanted, landed
        assert status.attempts(tag)[1]
    assert wait_for_executors(spark, pinned.rdd, 1.0) == 0  # none runs
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("error", LeverWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        checks(Path(folder))
    print(f"pins: Spark {pyspark.__version__} is fine", flush=True)
