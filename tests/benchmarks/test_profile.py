"""The profile of a micro-batch: its clock, its parts, its records."""

import io
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import charts
from benchmarks.harness.outcome import Context
from benchmarks.harness.text import table_lines
from benchmarks.profile import daemon, profile
from benchmarks.profile.__main__ import main
from benchmarks.profile.clock import Clock
from benchmarks.profile.event_log import Batch, Stage, read
from benchmarks.profile.parts import JVM, OURS, PARTS, UNEXPLAINED, medians, parts, split
from benchmarks.profile.pipelines import FULL, KEY, NONE, ROW
from benchmarks.profile.pipelines import ROWS as SAME

MS = 1_000_000


class Time:
    """A time that passes when it is told to."""

    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns

    def passes(self, ns):
        self.ns += ns


def clocked():
    time = Time()
    return time, Clock(time)


def test_time_is_charged_to_the_innermost_label():
    time, clock = clocked()
    clock.start("outer")
    time.passes(3)
    clock.enter("inner")
    time.passes(5)
    clock.enter("innermost")
    time.passes(7)
    clock.leave()
    clock.leave()
    time.passes(11)
    assert clock.stop() == {"outer": 14, "inner": 5, "innermost": 7}


@given(st.lists(st.tuples(st.sampled_from("+-"), st.sampled_from("abc"), st.integers(0, 9))))
def test_labels_add_up_to_all_the_time(steps):
    time, clock = clocked()
    clock.start("base")
    depth = 0
    for step, label, ns in steps:
        if step == "+":
            clock.enter(label)
            depth += 1
        elif depth:
            clock.leave()
            depth -= 1
        time.passes(ns)
    assert sum(clock.stop().values()) == time.ns


def test_a_timed_function_that_fails_is_left_all_the_same():
    time, clock = clocked()

    def fails():
        time.passes(5)
        raise KeyError("x")

    clock.start("base")
    with pytest.raises(KeyError):
        clock.timed(fails, "work")()
    time.passes(2)
    assert clock.stop() == {"base": 2, "work": 5}


def test_a_clock_that_does_not_run_charges_nothing():
    clock = Clock()
    assert clock.timed(lambda: 3, "work")() == 3
    assert list(clock.iterated([1, 2], "work")) == [1, 2]
    assert not clock.running


def test_what_a_generator_is_given_is_charged_apart_from_what_it_does():
    time, clock = clocked()

    def given_items():
        for item in range(3):
            time.passes(10)
            yield item

    def doubled(items):
        for item in items:
            time.passes(1)
            yield 2 * item

    clock.start("base")
    found = []
    for item in clock.timed_generator(doubled, "work", "given")(given_items()):
        found.append(item)
        time.passes(100)
    assert found == [0, 2, 4]
    assert clock.stop() == {"base": 300, "work": 3, "given": 30}


def test_a_task_begins_with_its_first_byte_and_is_counted_in_bytes():
    time, clock = clocked()
    pipe = daemon.Pipe(io.BytesIO(b"12345678"), clock)
    time.passes(1_000)  # nothing to do yet
    assert pipe.read(4) == b"1234"
    time.passes(7)
    assert pipe.read(4) == b"5678"
    assert pipe.readable()
    assert pipe.bytes == 8
    assert clock.stop() == {"spark": 7, "wait": 0}


def test_all_watched_functions_are_there():
    for (module, label), names in daemon.WATCHED.items():
        assert label
        for name in names:
            assert callable(getattr(*daemon.owner_of(module, name))), (module, name)


def test_records_are_found_by_query_and_micro_batch(tmp_path):
    lines = [
        {"query": "a", "batch": 1, "ns": {}},
        {"query": "a", "batch": 2, "ns": {}},
        {"query": "b", "batch": 1, "ns": {}},
        {"ns": {}},
    ]
    (tmp_path / "7.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = profile.records_of(tmp_path, "a")
    assert {number: len(records) for number, records in found.items()} == {1: 1, 2: 1}


def batch(**changes):
    """A micro-batch of 100 ms: two tasks of 30 ms beside each other in a job of 40 ms."""
    given = {
        "id": 3,
        "durations": {
            "triggerExecution": 100.0,
            "addBatch": 70.0,
            "queryPlanning": 9.0,
            "walCommit": 10.0,
            "commitOffsets": 8.0,
        },
        "execution": (1_000.0, 1_065.0),
        "jobs": [(1_015.0, 1_055.0)],
        "stages": [Stage([(1_020.0, 1_050.0), (1_022.0, 1_052.0)], run_ms=52.0)],
        "metrics": {},
    }
    return Batch(**{**given, **changes})


def record(**ms):
    return {"query": "a", "batch": 3, "ns": {name: int(value * MS) for name, value in ms.items()}}


def test_the_parts_of_a_micro_batch_are_what_spark_and_the_workers_say():
    records = [record(find=4, gather=6, spark=2, wait=8), record(find=2, send=2, spark=4, wait=9)]
    found = parts(batch(), records, cores=2)
    assert found["offsets, logs, commits"] == 18
    assert found["planning"] == 9
    assert found["driver, around the job"] == 65 - 40
    assert found["scheduling"] == 40 - 32 + 8 / 2
    assert found["cores without work"] == 32 - 60 / 2
    assert found["find keys"] == 3
    assert found["gather rows"] == 3
    assert found["Spark's Python worker"] == 3
    assert found["rows to Arrow and back"] == 1
    assert found[JVM] == (52 - 20) / 2  # waiting for the JVM is the JVM's time
    assert found[UNEXPLAINED] == pytest.approx(100 - 18 - 9 - 65)
    assert sum(found.values()) == pytest.approx(100)


def test_jobs_and_stages_beside_each_other_count_once():
    found = parts(
        batch(
            jobs=[(1_010.0, 1_030.0), (1_020.0, 1_050.0)],
            stages=[
                Stage([(1_012.0, 1_028.0)], run_ms=16.0),
                Stage([(1_022.0, 1_040.0)], run_ms=18.0),
            ],
        ),
        [],
        cores=2,
    )
    assert found["driver, around the job"] == 65 - 40
    assert found["scheduling"] == 40 - 28
    assert found["cores without work"] == 28 - 34 / 2


@given(
    st.lists(st.floats(0, 20), min_size=5, max_size=5),
    st.floats(0, 100),
    st.integers(1, 8),
)
def test_the_parts_add_up_whatever_the_workers_say(ms, ends, cores):
    labels = ("find", "gather", "send", "wait", "other")
    found = parts(batch(), [record(**dict(zip(labels, ms, strict=True)))], cores)
    assert sum(found.values()) == pytest.approx(100)
    one = split(found, ends)
    assert tuple(one) == PARTS
    assert sum(one.values()) == pytest.approx(100)


def test_medians_add_up_to_the_median_micro_batch():
    batches = [{"a": 1.0, "b": 9.0}, {"a": 2.0, "b": 18.0}, {"a": 9.0, "b": 3.0}]
    found = medians(batches)
    assert sum(found.values()) == pytest.approx(12)
    assert found["a"] / found["b"] == pytest.approx(2 / 9)


def test_the_outcome_has_tables_a_picture_and_our_share(tmp_path):
    records = [record(find=4, gather=6, spark=2), record(find=2, spark=4)]

    def one(own):
        return {
            "batches": [parts(batch(), own, 2)] * 3,
            "add_batch_ms": [70.0] * 3,
            "trigger_ms": [100.0] * 3,
            "labels": [{"wait": 3.0, "bytes in": 8_000, "bytes out": 24_000}] * 3,
            "metrics": [dict.fromkeys(profile._METRICS, 5.0)] * 3,
            "lookup_ms": [12.0] * 3,
            "asked": [],
        }

    names = [NONE, KEY, ROW, SAME, FULL]
    measured = {name: one(records if name == FULL else []) for name in names}
    context = Context(quick=True, out=tmp_path, data=tmp_path)
    found = profile.outcome(context, measured, 1_000, 10_000)
    figures = {figure.name: figure for figure in found.figures}
    assert figures["our code / micro-batch, full cache"].value == pytest.approx(0.06)
    assert figures[f"addBatch, full cache / {ROW}"].value == 1
    assert figures["our code / micro-batch, full cache"].bound is None
    assert charts.draw(found.tables, tmp_path / "profile.svg")[0].exists()
    assert all(len(row) == len(table.columns) for table in found.tables for row in table.rows)
    assert {row[0] for row in found.tables[0].rows} == {*PARTS, "all"}
    assert set(OURS) < set(PARTS)
    assert "find keys" in "".join(table_lines(found.tables[0]))
    json.dumps(found.measured)


def test_sizes_below_one_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--rows", "0"])
    assert "--rows must be 1 or more, not 0" in capsys.readouterr().err


def test_a_worker_writes_a_line_for_each_task(tmp_path, monkeypatch):
    monkeypatch.setenv(daemon.FOLDER, str(tmp_path))

    def task(infile, outfile):
        assert infile.read(4) == b"keys"
        threading.Event().wait(0.05)
        outfile.write(b"rows!")

    work = daemon.recorded(task)
    work(io.BytesIO(b"keys"), io.BytesIO())
    work(io.BytesIO(b"keys"), io.BytesIO())
    (file,) = tmp_path.iterdir()
    first, second = map(json.loads, file.read_text().splitlines())
    assert (first["in"], first["out"]) == (4, 5)
    assert set(second["ns"]) == {"spark", "send"}
    assert second["ns"]["spark"] >= 40 * MS


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
    assert (found.id, found.durations) == (1, {"addBatch": 14.0})
    assert (found.execution, found.jobs) == ((1, 15), [(5, 13)])
    (stage,) = found.stages
    assert (stage.span, stage.tasks_ms, stage.run_ms) == ((6, 12), 8, 6)
    assert found.metrics == {"data sent to Python workers": 12.0}
