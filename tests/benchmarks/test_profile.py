"""The profile of a micro-batch: its parts, the event log, the samples of its workers."""

import json
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import charts
from benchmarks.harness.text import table_lines
from benchmarks.profile import profile
from benchmarks.profile.event_log import Batch, read
from benchmarks.profile.parts import (
    ENDS,
    EXCHANGE,
    EXECUTE,
    OURS,
    PARTS,
    RUN,
    SET_UP,
    UNEXPLAINED,
    medians,
    parts,
)
from benchmarks.profile.pipelines import FULL, NONE, ROW, WARM
from benchmarks.profile.samples import FUNCTIONS, REST, WAIT, WORKER, shares


def batch(**changes):
    """A micro-batch of 100 ms: two tasks of 30 ms beside each other in a job of 40 ms."""
    given = {
        "durations": {
            "triggerExecution": 100.0,
            "addBatch": 70.0,
            "queryPlanning": 9.0,
            "walCommit": 10.0,
            "commitOffsets": 8.0,
        },
        "executions": {0: (1_000.0, 1_065.0)},
        "jobs": {0: (1_015.0, 1_055.0)},
        "stages": {0: [(1_020.0, 1_050.0), (1_022.0, 1_052.0)]},
        "run_ms": 52.0,
    }
    return Batch(**{**given, **changes})


def test_the_parts_of_a_micro_batch_are_what_spark_and_bsjoin_say():
    found = parts(batch(metrics={RUN: 30.0, EXECUTE: 24.0}, lookup_ms=12.0), cores=2, ends=5.0)
    assert found["offsets, logs, commits"] == 18
    assert found["planning"] == 9
    assert found["driver, around the job"] == 65 - 40
    assert found["scheduling"] == 40 - 32 + 8 / 2
    assert found["cores without work"] == 32 - 60 / 2
    assert found[SET_UP] == 3
    assert found[OURS] == 6
    assert found[ENDS] == 5
    assert found[EXCHANGE] == 52 / 2 - 3 - 6 - 5
    assert found[UNEXPLAINED] == pytest.approx(100 - 18 - 9 - 65)
    assert sum(found.values()) == pytest.approx(100)


def test_jobs_and_stages_beside_each_other_count_once():
    found = parts(
        batch(
            jobs={0: (1_010.0, 1_030.0), 1: (1_020.0, 1_050.0)},
            stages={0: [(1_012.0, 1_028.0)], 1: [(1_022.0, 1_040.0)]},
            run_ms=34.0,
        ),
        cores=2,
    )
    assert found["driver, around the job"] == 65 - 40
    assert found["scheduling"] == 40 - 28
    assert found["cores without work"] == 28 - 34 / 2


@given(st.floats(0, 20), st.floats(0, 20), st.floats(0, 100), st.integers(1, 8))
def test_the_parts_add_up_whatever_the_workers_say(run, lookup, ends, cores):
    found = parts(batch(metrics={RUN: run}, lookup_ms=lookup), cores, ends)
    assert tuple(found) == PARTS
    assert sum(found.values()) == pytest.approx(100)


def test_medians_add_up_to_the_median_micro_batch():
    batches = [{"a": 1.0, "b": 9.0}, {"a": 2.0, "b": 18.0}, {"a": 9.0, "b": 3.0}]
    found = medians(batches)
    assert sum(found.values()) == pytest.approx(12)
    assert found["a"] / found["b"] == pytest.approx(2 / 9)


def test_the_outcome_has_tables_a_picture_our_share_and_why_there_are_no_samples(tmp_path):
    measured = {name: [batch()] * 3 for name in (NONE, ROW)}
    measured[FULL] = [batch(lookup_ms=12.0)] * 3
    measured[WARM] = [batch(asked=7)] * 3
    sampled = {FULL: shares([f"{TASK};find (bsjoin/x.py:1) 3"]), WARM: "py-spy may not trace"}
    found = profile.outcome(measured, sampled, 2, 1_000, 10_000)
    figures = {figure.name: figure for figure in found.figures}
    assert figures["our code / micro-batch, full cache"].value == pytest.approx(0.06)
    assert figures["our code / micro-batch, full cache"].bound is None
    assert figures["unexplained / micro-batch, full cache"].bound == 0.05
    assert figures[f"addBatch, full cache / {ROW}"].value == 1
    assert charts.draw(found.tables, tmp_path / "profile.svg")[0].exists()
    assert all(len(row) == len(table.columns) for table in found.tables for row in table.rows)
    assert {row[0] for row in found.tables[0].rows} == {*PARTS, "all"}
    assert "find keys" in "".join(table_lines(found.tables[0]))
    assert found.tables[-1].columns == ("what", FULL)
    assert f"{WARM}: py-spy may not trace." in found.tables[-1].note
    json.dumps(found.measured)


TASK = 'process 7:"python -m pyspark.daemon";manager (daemon.py:184);invoke_udf (worker.py:4210)'
IN = "bsjoin/runtimes/python/worker"
FIND = f"answers ({IN}/full_cache.py:8);OpenTable.find ({IN}/open_table.py:9)"


@pytest.mark.parametrize(
    ("frames", "group"),
    [
        (f"{FIND};take (pyarrow/compute.py:3)", "find keys"),
        (f"{FIND};Loader.load (bsjoin/runtimes/python/worker/loading.py:3)", "keep rows"),
        ("answers (bsjoin/runtimes/python/worker/full_cache.py:8);len (numpy/core.py:1)", REST),
        ("answers (bsjoin/x.py:8);A.load_stream (serializers.py:5);f (pyarrow/ipc.py:1)", WAIT),
        (f"{FIND};Segment.find (bsjoin/storage/segment.py:1)", "find keys"),
        ("A.dump_stream (serializers.py:5)", WORKER),
    ],
)
def test_a_sample_belongs_to_the_innermost_function_that_has_a_group(frames, group):
    assert shares([f"{TASK};{frames} 1", f"{TASK};A.dump_stream (serializers.py:5) 0"])[group] == 1


def test_workers_between_tasks_and_other_processes_are_no_samples():
    stacks = [
        f"{TASK};X.get_init_message (x.py:1);read_int (serializers.py:1) 9",
        "main (a.py:1) 5",
    ]
    assert shares(stacks) == "py-spy took no sample inside of a task"
    found = shares([*stacks, f"{TASK};{FIND} 3", f"{TASK} 1"])
    assert {group: share for group, share in found.items() if share} == {
        "find keys": 0.75, WORKER: 0.25,
    }  # fmt: skip


def test_all_functions_of_the_groups_are_there():
    for name in FUNCTIONS:
        function = pkgutil.resolve_name(name)
        assert f"{function.__module__}:{function.__qualname__}" == name


def log(folder, *events):
    (folder / "local-1").write_text("\n".join(map(json.dumps, events)) + '\n{"Event": "half')


def test_micro_batches_are_read_from_the_event_log(tmp_path):
    def job(number, query, batch):
        properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
        properties["spark.sql.execution.id"] = str(number)
        return {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 5,
                "Stage IDs": [number], "Properties": properties}  # fmt: skip

    def task(stage, begin, end, sent):
        one = {"Name": "data sent to Python workers", "Update": sent, "Metadata": "sql"}
        info = {"Launch Time": begin, "Finish Time": end, "Accumulables": [one]}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info,
                "Task Metrics": {"Executor Run Time": end - begin - 1}}  # fmt: skip

    prefix = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    events = [event for n, query in enumerate(("a", "a", "b")) for event in (
        {"Event": f"{prefix}Start", "executionId": n, "time": 1},
        job(n, query, n), task(n, 6, 9, "7"), task(n, 7, 12, "5"),
        {"Event": "SparkListenerJobEnd", "Job ID": n, "Completion Time": 13},
        {"Event": f"{prefix}End", "executionId": n, "time": 15},
    )]  # fmt: skip
    log(tmp_path, {"Event": "SparkListenerLogStart"}, *events)

    class Query:
        id = "a"

        class Progress:
            batchId, numInputRows, durationMs = 1, 10, {"addBatch": 14}  # noqa: N815

        recentProgress = (Progress,)  # noqa: N815

    (found,) = read(tmp_path, Query, 1, 1)
    assert found.durations == {"addBatch": 14}
    assert (found.executions, found.jobs) == ({1: (1, 15)}, {1: (5, 13)})
    assert (found.stages, found.run_ms) == ({1: [(6, 9), (7, 12)]}, 6)
    assert found.metrics == {"data sent to Python workers": 12.0}
