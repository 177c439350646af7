"""The private members of Spark: in one module, found in this version, in one call for all pins."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import scheduling.spark
from scheduling.errors import ActuatorError
from scheduling.spark import Executor, internals, pin
from scheduling.spark.seen import finished

PRIVATE = {"_jsc", "_jdf", "_jvm", "_gateway", "_jsparkSession", "_jrdd"}


def test_no_other_module_touches_private_members() -> None:
    folder = Path(scheduling.spark.__file__).parent
    found = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE
    }
    assert found == {"internals.py"}


def test_all_partitions_are_pinned_in_one_call(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.range(0, 60, 1, 6)
    _, rdd, count = internals.plan_of(df)
    assert count == 6
    wanted = [Executor("node_1", "3").location, "", "executor_h_1", "executor_h_1", "", "x"]
    rows, pinned = internals.pinned(df, rdd, wanted)
    found = internals.preferred_hosts(spark, pinned)
    assert found == [("node-1",), (), ("h",), ("h",), (), ("x",)]
    assert sorted(row[0] for row in rows.collect()) == list(range(60))
    monkeypatch.setattr(internals, "_compiled", lambda *_: None)  # a session without a compiler
    with pytest.raises(ActuatorError, match=r"cannot be pinned .*verified: 4\.1, 4\.2, 4\.3"):
        pin(spark.range(0, 8, 1, 4), [Executor("h", "1"), None, None, Executor("g", "2")])
    assert internals.preferred_hosts(spark, internals.plan_of(spark.range(1))[1]) == []


def test_a_micro_batch_finds_its_query(spark: SparkSession, tmp_path: Path) -> None:
    assert internals.running_query(spark) is None
    spark.range(0, 40, 1, 4).write.parquet(str(tmp_path / "in"))
    seen: list[tuple[Any, list[dict[str, Any]]]] = []

    def look(df: DataFrame, _: int) -> None:
        found = internals.running_query(df.sparkSession)
        seen.append((found.id, internals.recent_progress(found, 1)))

    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    query = (
        rows.parquet(str(tmp_path / "in"))
        .writeStream.foreachBatch(look)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert {name for name, _ in seen} == {query.id}
    assert [[one["batchId"] for one in progress] for _, progress in seen] == [[], [0], [1], [2]]


def test_hosts_are_read_from_any_location(caplog: pytest.LogCaptureFixture) -> None:
    names = ["host-1", "executor_10.0.0.4_12", "hdfs_cache_node7", "executor_a_b_3"]
    assert [internals._host(name) for name in names] == ["host-1", "10.0.0.4", "node7", "a_b"]
    with caplog.at_level(logging.INFO, "scheduling"):
        assert internals.preferred_hosts(object(), object()) == []  # type: ignore[arg-type]
    assert "is not known" in caplog.text


def test_a_speculative_copy_does_not_count_as_a_miss() -> None:
    def attempt(index: int, executor: str, status: str, *, copy: bool) -> dict[str, Any]:
        return {
            "index": index,
            "partitionId": index,
            "executorId": executor,
            "status": status,
            "speculative": copy,
            "taskMetrics": {
                "executorRunTime": 2000,
                "executorCpuTime": 500_000_000,
                "peakExecutionMemory": 2**20,
                "shuffleReadMetrics": {
                    "recordsRead": 3,
                    "fetchWaitTime": 1000,
                    "localBytesRead": 4,
                    "remoteBytesRead": 6,
                },
            },
        }

    slow, copy, other = finished(
        [
            attempt(0, "1", "SUCCESS", copy=False),
            attempt(1, "1", "KILLED", copy=False),
            attempt(1, "2", "SUCCESS", copy=True),
            attempt(2, "3", "SUCCESS", copy=False),
        ]
    )
    assert (slow.executor, slow.requested_at) == ("1", "")
    assert (copy.executor, copy.requested_at) == ("2", "1")
    assert (other.executor, other.rows, other.useful_s) == ("3", 3, 1.0)
    assert (other.cpu_s, other.memory_mb, other.shuffle_bytes) == (0.5, 1.0, 10)
