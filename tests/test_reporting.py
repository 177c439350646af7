"""``reporting``: harmless in a classic session; on a server it finds its own query, or none."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.serializers import CloudPickleSerializer

import bsjoin
from bsjoin._reporting import _Reports, _reports
from bsjoin.errors import ArgumentError
from bsjoin.metrics import reports
from bsjoin.metrics.lines import to_line
from bsjoin.spark import session


def double(batch: Any, number: int) -> Any:
    return 2 * batch + number


wrap: Any = bsjoin.reporting
serializers: Any = CloudPickleSerializer


class Double:
    """Methods of all kinds, one of them of an object that can be called."""

    def __init__(self, by: int = 2):
        self.by = by

    def plain(self, batch: Any, number: int) -> Any:
        """What it does."""
        return self.by * batch + number

    __call__ = plain
    method = wrap(plain)
    of_class: Any = classmethod(wrap(lambda cls, *given: cls().plain(*given)))
    static = wrap(staticmethod(double))


def scaled(by: int, batch: Any, number: int, *, more: int = 0) -> Any:
    return by * batch + number + more


def test_a_function_is_called_as_it_is() -> None:
    wrapped = wrap(double)
    assert wrap(wrapped) is wrapped
    twice: Any = Double()
    serializer = serializers()
    some = wrap(scaled)
    functions: list[Any] = [
        wrapped, functools.partial(wrapped), functools.partial(some, 2, more=0),
        wrap(functools.partial(scaled, 2)), wrap(lambda *two: double(*two)),
        wrap(twice), wrap(twice.plain), twice.method, twice.of_class,
        Double.static, twice.static,
    ]  # fmt: skip
    for one in functions:
        for copied in (one, serializer.loads(serializer.dumps(one)), copy.deepcopy(one)):
            assert copied(3, 1) == 7
    assert wrapped(batch=3, number=1) == Double.method(twice, 3, 1) == 7
    assert (wrapped.__name__, twice.method.__doc__) == ("double", "What it does.")


def test_functions_of_one_query_report_together() -> None:
    """One after the other, and one that calls another."""
    server, seen = Server(), list[Any]()
    _reports.cache_clear()
    with (
        server.views(),
        mock.patch("bsjoin._reporting.is_for_a_query", return_value=True),
        mock.patch.object(reports, "active_session", return_value=server),
    ):
        try:
            first: Any = bsjoin.reporting(lambda *_: seen.append(session._running))
            outer: Any = bsjoin.reporting(lambda *given: [first(*given), first(*given)])
            first, outer = map(copy.deepcopy, (first, outer))  # as the server reads them
            server.active.append(Query("1", 0))
            for call in (first, outer, first):
                call(None, 0)
            copy.deepcopy(first)(None, 0)
            first(None, "no number")
        finally:
            _reports.cache_clear()
    assert (server.runs, server.written) == (["1"], {"1": {0: to_line([])}})
    assert (len(seen), len(set(seen[:-1]))) == (6, 1)
    assert seen[-1] is session._running is None


@pytest.mark.parametrize("thing", [None, 5, "write", [double]])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ArgumentError, match="give the function that foreachBatch would get"):
        bsjoin.reporting(thing)


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
    tags: list[str] = field(default_factory=list)

    @property
    def streams(self) -> Any:
        if self.fails:
            raise RuntimeError("password=secret")
        return self

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        return SimpleNamespace(addJobTag=self.tags.append, removeJobTag=self.tags.remove)

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

    def query(self, run: int, number: int, reporting: str) -> Iterator[None]:
        """The life of a query, step by step, and of the process where its function is read."""
        query = Query(f"{run}", number)
        if reporting == "yes":
            query.reports = _Reports(self)  # type: ignore[arg-type]
        yield
        self.active.append(query)
        while True:
            yield
            query.has_ended(0)  # without a micro-batch
            yield
            if reporting == "late":  # inside the first call
                query.reports = query.reports or _Reports(self)  # type: ignore[arg-type]
            found = (None, query.runId) if reporting == "yes" else (None,)
            with (
                query.reports.of(query.number, None) if query.reports else contextlib.nullcontext()
            ):
                yield
                assert query.reports is None or query.reports._run in found
            assert query.reports is None or query.reports._run in found
            yield
            query.has_ended(query.number % 2, addBatch=1)
            query.number += 1


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["no", "yes", "late"])), min_size=1, max_size=4
    ),
    st.lists(st.integers(0, 3), max_size=60),
)
def test_a_process_finds_its_own_query_or_none(
    kinds: list[tuple[int, str]], order: list[int]
) -> None:
    server = Server()
    with server.views():
        steps = [server.query(run, *kind) for run, kind in enumerate(kinds)]
        for i in order:
            next(steps[i % len(steps)])
        # As soon as each has had time of its own, every one is found.
        for _ in range(2):
            for one in steps:
                for _ in range(15):
                    next(one)
        for query in server.active:
            if kinds[int(query.runId)][1] == "yes":
                assert query.reports._run == query.runId
                assert list(server.written[query.runId])[-1] in (query.number, query.number - 1)
                assert len(server.written[query.runId]) <= 3


def test_reports_are_bounded_and_a_failed_call_has_none() -> None:
    server = Server()
    found = _Reports(server)  # type: ignore[arg-type]
    server.active.append(Query("1", 0))
    with server.views():
        with found.of(0, None):
            pass
        with pytest.raises(ZeroDivisionError), found.of(1, None):
            raise ZeroDivisionError
        assert server.written == {"1": {0: to_line([])}}
        texts = ["x" * 200_000, "x" * 300_001, "x" * 10, "x", "x" * 600_000, *"xxxx"]
        wanted = [{0, 1}, {2}, {2, 3}, {2, 3, 4}, {5}, {6}, {6, 7}, {6, 7, 8}, {7, 8, 9}]
        for number, text in enumerate(texts, 1):
            with mock.patch("bsjoin._reporting.to_line", return_value=text), found.of(number, None):
                pass
            assert server.written["1"].keys() == wanted[number - 1], number


def test_a_query_goes_on_where_reports_fail(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(fails=True)
    found = _Reports(server)  # type: ignore[arg-type]
    server.fails = False
    server.active.append(Query("1", 0))
    with server.views(), found.of(0, None):
        pass
    assert server.written == {}
    found = _Reports(Server())  # type: ignore[arg-type]
    found._run = "no id"
    with found.of(0, None):
        assert threading.active_count()
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert all("does not report its joins" in text for text in texts)
    assert not any("secret" in text for text in texts)
