"""``reporting``: harmless in a classic session; on a server it finds its own query, or none."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import reporting_checks
from checks_apart import each, passes
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, table_of

import bsjoin
from bsjoin import BatchTable
from bsjoin._reporting import _Reports
from bsjoin._spark import reports
from bsjoin.errors import ArgumentError


@pytest.mark.usefixtures("runtime")
def test_a_classic_query_has_the_same_figures(spark: SparkSession, tmp_path: Path) -> None:
    table = BatchTable.build(table_of(spark, 1), on="k")
    seen: list[int] = []

    def call(batch: DataFrame, number: int) -> str:
        seen.append(table.join(batch, how="left").count())
        return "anything"

    found = []
    for i, function in enumerate((call, bsjoin.reporting(call))):
        feed = Feed(spark, tmp_path / f"{i}")
        for keys in ((1, 2, None), (1, 9)):
            feed.add(*keys)
        query = feed.stream.writeStream.foreachBatch(function).start()
        query.processAllAvailable()
        query.stop()
        cycles = bsjoin.progress(query)
        found.append([(c.batch_id, c.on, c.rows_in, c.rows_out, c.hits) for c in cycles])
    assert found[0] == found[1] != []
    assert seen[:2] == seen[2:] == [one[3] for one in found[0]]


def double(batch: int, number: int) -> int:
    return 2 * batch + number


def test_a_function_is_called_as_it_is() -> None:
    wrapped: Any = bsjoin.reporting(double)  # type: ignore[arg-type]
    assert bsjoin.reporting(wrapped) is wrapped
    for one in (wrapped, pickle.loads(pickle.dumps(wrapped))):
        assert one(3, 1) == 7


@pytest.mark.parametrize("thing", [None, 5, "write", [double]])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ArgumentError, match="give the function that foreachBatch would get"):
        bsjoin.reporting(thing)


@each(reporting_checks.CHECKS)
def test_under_connect(check: str) -> None:
    pytest.importorskip("grpc", reason="install bsjoin[connect] to test Spark Connect")
    passes("reporting_checks.py", check)


@dataclass
class Query:
    """A query of a session, and the process of the server that runs its function."""

    runId: str  # noqa: N815 - as Spark calls it
    number: int
    lastProgress: Any = None  # noqa: N815
    reports: _Reports | None = None
    call: Any = None

    def has_ended(self, numInputRows: int, **durations: int) -> None:  # noqa: N803 - as Spark's
        self.lastProgress = SimpleNamespace(
            batchId=self.number, numInputRows=numInputRows, durationMs=durations
        )


@dataclass
class Server:
    """A session with queries, and the views in it."""

    active: list[Query] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    written: dict[str, dict[int, str]] = field(default_factory=dict)
    fails: bool = False

    @property
    def streams(self) -> Any:
        if self.fails:
            raise RuntimeError("password=secret")
        return self

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.sql.streaming.numRecentProgressUpdates": "3"}

    @contextlib.contextmanager
    def views(self) -> Iterator[None]:
        """Instead of those of Spark."""
        with (
            mock.patch.object(reports, "claimed", return_value=self.runs),
            mock.patch.object(reports, "claim", lambda _, run: self.runs.append(run)),
            mock.patch.object(
                reports, "write", lambda _, run, made: self.written.update({run: dict(made)})
            ),
        ):
            yield

    def query(self, run: int, number: int, reporting: bool) -> Iterator[None]:
        """The life of a query, step by step."""
        query = Query(f"{run}", number)
        if reporting:
            query.reports = _Reports(self)  # type: ignore[arg-type]
        yield
        self.active.append(query)
        while True:
            yield
            query.has_ended(0)  # without a micro-batch
            yield
            with query.reports.of(query.number) if query.reports else contextlib.nullcontext():
                yield
                assert query.reports is None or query.reports._run in (None, query.runId)
            assert query.reports is None or query.reports._run in (None, query.runId)
            yield
            query.has_ended(query.number % 2, addBatch=1)
            query.number += 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=60),
)
def test_a_process_finds_its_own_query_or_none(
    kinds: list[tuple[int, bool]], order: list[int]
) -> None:
    server = Server()
    with server.views():
        steps = [server.query(run, number, wrapped) for run, (number, wrapped) in enumerate(kinds)]
        for i in order:
            next(steps[i % len(steps)])
        # As soon as each has had time of its own, every one is found.
        for _ in range(2):
            for one in steps:
                for _ in range(15):
                    next(one)
        for query in server.active:
            if query.reports is not None:
                assert query.reports._run == query.runId
                assert list(server.written[query.runId])[-1] in (query.number, query.number - 1)
                assert len(server.written[query.runId]) <= 3


def test_reports_are_bounded_and_a_failed_call_has_none() -> None:
    server = Server()
    found = _Reports(server)  # type: ignore[arg-type]
    server.active.append(Query("1", 0))
    with server.views():
        with found.of(0):
            pass
        with pytest.raises(ZeroDivisionError), found.of(1):
            raise ZeroDivisionError
        assert server.written == {"1": {0: "[]"}}
        texts = ["x" * 200_000, "x" * 300_001, "x" * 10, "x", "x" * 600_000, *"xxxx"]
        wanted = [{0, 1}, {2}, {2, 3}, {2, 3, 4}, {5}, {6}, {6, 7}, {6, 7, 8}, {7, 8, 9}]
        for number, text in enumerate(texts, 1):
            with mock.patch("bsjoin._reporting.to_json", return_value=text), found.of(number):
                pass
            assert server.written["1"].keys() == wanted[number - 1], number


def test_a_query_goes_on_where_reports_fail(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(fails=True)
    found = _Reports(server)  # type: ignore[arg-type]
    server.fails = False
    server.active.append(Query("1", 0))
    with server.views(), found.of(0):
        pass
    assert server.written == {}
    found = _Reports(Server())  # type: ignore[arg-type]
    found._run = "no id"
    with found.of(0):
        assert threading.active_count()
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert all("does not report its joins" in text for text in texts)
    assert not any("secret" in text for text in texts)
