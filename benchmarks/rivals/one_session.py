"""One Spark session with so many workers: a process that measures and ends.

    python -m benchmarks.rivals.one_session ASKED.json ANSWERED.json

The first file has ``job`` (a module with a ``JOB``), ``master``, ``data`` (a folder), ``kind``,
``batches`` (the fields of ``Batches``), ``sizes`` (of tables; the first is the base, where all
ways are measured, bsjoin and Spark alone at the others), ``url`` (of the database, with the tables
of the base), ``rounds``, ``records``, ``sample``,
``seed``, and ``apart``: whether Spark compiles in runs before, or in a few micro-batches more.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.harness.session import spark_session
from benchmarks.rivals import spark as ways_of
from benchmarks.rivals.compare import AQE_ON, FULL, RECORD
from benchmarks.rivals.database import per_record, server_seconds
from benchmarks.rivals.job import Job, stream_files
from benchmarks.rivals.runs import RECORD_TURNS, Batches, check, records, run

__all__ = ["main", "measure"]


def main(asked: str, answered: str) -> None:
    """Measure what a file asks for; write what was found into another."""
    spec = json.loads(Path(asked).read_text("utf-8"))
    spark = spark_session("3g", master=spec["master"])
    try:
        found = measure(spark, spec)
    finally:
        spark.stop()
    Path(answered).write_text(json.dumps(found), "utf-8")


def measure(spark: SparkSession, spec: dict[str, Any]) -> dict[str, Any]:
    """Check, then time, at every size of the tables.

    Returns:
        ``sizes`` (size, way, runs), of one query per record ``demand_s`` (the database's processor
        time for a record), ``fan_out`` (results for each row) and ``said`` (lines to print).
    """
    job: Job = importlib.import_module(spec["job"]).JOB
    data, batches = Path(spec["data"]), Batches(**spec["batches"])
    found: dict[str, Any] = {"sizes": {}, "said": [], "master": spec["master"]}
    for size in spec["sizes"]:
        base = size == spec["sizes"][0]
        only_small = Batches(batches.small, batches.smalls, batches.large, 0, batches.warm)
        which = batches if base else only_small
        folder = job.tables(data, size)
        files = stream_files(job, data, size, spec["kind"], which.sizes, spec["seed"])
        tables = ways_of.read(spark, job, folder)
        # Other sessions have the same tables: the first one builds them.
        indexed = ways_of.indexed(job, tables, data / "indexed" / f"{job.name}-{size:g}")
        ways = {FULL: ways_of.full(job, indexed), AQE_ON: ways_of.native(job, tables)}
        if base and spec.get("url"):
            ways[RECORD] = per_record(job, spec["url"])
        events = job.events(size, spec["sample"], 0, spec["kind"], spec["seed"]).cast(job.arrow)
        sample = spark.createDataFrame(events).localCheckpoint()
        answers = {n: partial(w, sample) for n, w in ways.items()}
        results = check(answers, job.columns)
        if base:
            found["fan_out"] = results / spec["sample"]
        if base and spec.get("apart", True):  # Spark compiles; not counted
            few = stream_files(job, data, size, spec["kind"], which.few.sizes, spec["seed"])
            for name in (FULL, AQE_ON):
                run(spark, job, few, ways[name], which.few)
        at: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
        for _ in range(spec.get("rounds", 1)):
            for name, way in ways.items():
                if name == RECORD:
                    before = server_seconds(spec["url"])
                    one = records(spark, job, files, way, spec["records"])
                    spent = server_seconds(spec["url"]) - before
                    one["demand_s"] = spent / (RECORD_TURNS * spec["records"] + 1)
                else:
                    one = run(spark, job, files, way, which)
                at[name].append(one)
                found["said"].append(_line(spec["master"], size, name, one))
        found["sizes"][str(size)] = at
    return found


def _line(master: str, size: float, name: str, one: dict[str, Any]) -> str:
    latency = f"{statistics.median(one['ms']):8.0f} ms" if "ms" in one else 11 * " "
    rate = f"{one['rate']:>12,.0f} rows/s" if "rate" in one else ""
    return f"  {master:<22} {size:<6g} {name:<22} {latency} {rate}"


if __name__ == "__main__":
    main(*sys.argv[1:])
