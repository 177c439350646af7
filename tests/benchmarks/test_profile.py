"""The profile of a micro-batch: its parts, the event log, the samples of its workers."""

import json
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    parts,
)
from benchmarks.profile.samples import FUNCTIONS


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


@given(st.floats(0, 20), st.floats(0, 20), st.floats(0, 100), st.integers(1, 8))
def test_the_parts_add_up_whatever_the_workers_say(run, lookup, ends, cores):
    found = parts(batch(metrics={RUN: run}, lookup_ms=lookup), cores, ends)
    assert tuple(found) == PARTS
    assert sum(found.values()) == pytest.approx(100)


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
