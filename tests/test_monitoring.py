"""What is counted is exact, and the same in the log, as text, in Spark's servlet and elsewhere."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, soon

import bsjoin
from bsjoin import BatchTable, CycleProgress, PartitionProgress, PlacementProgress, monitoring
from bsjoin.errors import ArgumentError
from bsjoin.metrics.progress import ObservedProgress
from bsjoin.metrics.refreshes import RefreshProgress
from bsjoin.metrics.shown import ProgressList
from bsjoin.monitoring import openmetrics
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.log import line
from bsjoin.monitoring.model import BATCHES, OF_JOINS, Metric, Sample
from bsjoin.monitoring.prometheus import gauge_name
from bsjoin.monitoring.totals import MicroBatch, QueryTotals, Totals
from bsjoin.storage.source_version import SourceVersion

ROOT = Path(__file__).resolve().parent.parent
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTILE = '<img src=x onerror="alert(1)">\n\\'


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins of other tests have numbers of those that are made here, and tables with refreshes."""
    monkeypatch.setattr("bsjoin.monitoring.totals.of_join", {}.get)


def cycle(number: int, **changed: Any) -> CycleProgress:
    """A join of ten rows, of which nine have a match."""
    values: dict[str, Any] = {
        "join": 1, "on": ("k",), "batch_id": number, "timestamp": "2026-01-01T12:00:00.000Z",
        "rows_in": 10, "rows_out": 9, "hits": 9, "misses": 1, "matches": 9, "lookup_ms": None,
        "mode": "full", "table_version": 1, "cache": None,
        "partition": PartitionProgress(kind="none", reason=""), "runtime": "jvm",
        "runtime_reason": "", "open_ms": 2.0,
    }  # fmt: skip
    return CycleProgress(**{**values, **changed})


def cached(**changed: Any) -> bsjoin.CacheProgress:
    values: dict[str, Any] = dict.fromkeys(
        ("negative_hits", "lookups", "keys_queried", "retries", "failed_keys", "stale_rows",
         "evictions", "rows", "bytes"), 0,
    ) | dict.fromkeys(("load_ms_p50", "load_ms_p95", "load_ms_p99"), 0.0)  # fmt: skip
    values |= {"hits": 9, "misses": 1, "hottest": ((HOSTILE, 0.5),), "hosts": (("h-1", 0, 0),)}
    return bsjoin.CacheProgress(**values | changed)


def full(number: int = 0) -> CycleProgress:
    """A join with a value for every metric."""
    cache = cached(lookups=2, load_ms_p50=1.0, load_ms_p95=2.0, load_ms_p99=3.0, rows=5, bytes=700,
                   hosts=(("h-1", 5, 700),))  # fmt: skip
    partition = PartitionProgress(
        kind="hotspot", reason="", rule_version=3, rows=(6, 4), skew=0.2, skew_by_hash=0.9
    )
    placed = PlacementProgress(
        action="move", reason=HOSTILE, partitions=2, requested=2, landed=1,
        workers=(("h-1/1", 2),), rent=0.25,
    )  # fmt: skip
    source = SourceVersion(f"the Delta table {HOSTILE}", "17", int(NOON.timestamp() * 1e6))
    refresh = RefreshProgress(
        last_success=NOON, last_error="SourceError: gone", last_error_at=NOON + timedelta(1),
        is_failing=True,
        source=source, newest=replace(source, version="18"), last_look=NOON + timedelta(1),
        lag_s=2.5, applied=5, read_whole=2, read_whole_why=HOSTILE,
    )  # fmt: skip
    return cycle(
        number, cache=cache, partition=partition, placement=placed, refresh=refresh, mode="full",
        lookup_ms=5.0, table=HOSTILE, source=source,
    )  # fmt: skip


def totals(*cycles: CycleProgress, name: str = "orders") -> QueryTotals:
    """What a query with these has done, each a micro-batch of half a second."""
    found = QueryTotals(name)
    for number, one in enumerate(cycles):
        route = bsjoin.kafka.RouteProgress(number, "named", 9, 2, 1, 0, 4)
        found.add(MicroBatch(number, NOON.timestamp() + number, 0.5, 10, [one], [route]))
    return found


def value(found: list[Any], name: str, **labels: str) -> float:
    """The value of one sample."""
    (one,) = [s for s in found if s.name == name and labels.items() <= s.attributes.items()]
    return float(one.value)


# -- tables for people -----------------------------------------------------------------------------


def test_progress_prints_a_table_and_a_notebook_shows_one() -> None:
    shown = ProgressList([cycle(0, table=HOSTILE), cycle(1, rows_in=0, hits=0, misses=0)])
    lines = str(shown).splitlines()
    assert len(lines) == 3
    assert lines[0].split() == [
        "batch", "join", "on", "table", "rows", "in", "rows", "out", "hit", "rate", "open", "ms",
        "version", "runtime",
    ]  # fmt: skip
    assert "90.0%" in str(shown)
    assert "0.0%" not in lines[2]  # without rows there is no rate
    unused = str(ProgressList([nothing(0, cache=cached(hits=0, misses=0, hosts=())), nothing(1)]))
    assert not {"%", "cache", "load"} & {*unused.split(), *unused}  # nor a size of the cache
    assert "0 bytes" in str(ProgressList([cycle(0, cache=cached())]))
    page = shown._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page
    assert page.count("<tr>") == 3
    assert len(str(shown[1:]).splitlines()) == 2
    assert shown[1].rows_in == 0
    assert str(ProgressList()) == "no micro-batch with a join yet"
    assert ProgressList() == []
    assert "<p>" in ProgressList()._repr_html_()
    assert "50.0%" not in str(ProgressList([full()]))  # keys are data, and not in the table


def test_tables_and_explain_are_shown_in_notebooks(
    spark: SparkSession, people: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = BatchTable.build(people, on="k", path=tmp_path / "<b>table")
    page = table._repr_html_()
    assert "&lt;b&gt;table" in page
    assert re.search(r'<th scope="row"[^>]*>rows</th><td[^>]*>10</td>', page)
    assert {"on k", "rows 10", "version 1"} < {
        " ".join(one.split()) for one in str(table).splitlines()
    }
    assert "TableNotFoundError" in _gone(table, tmp_path)
    joined = bsjoin.join(spark.range(3).selectExpr("id AS k"), people, "k")
    shown = bsjoin.explain(joined, format="html")
    assert capsys.readouterr().out == ""
    assert "inner join on k = k" in shown._repr_html_()
    assert "generated code" in str(shown)
    assert ";   " not in str(shown)
    where = "name > '\n\t'"
    bsjoin.explain(bsjoin.join(spark.range(3).selectExpr("id AS k"), people, "k", where=where))
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("(1) inner join on k = k where ")
    assert (r"'\n\t'" in told[0], len(told)) == (True, 2)
    with pytest.raises(ArgumentError, match="format='json': give 'text'"):
        bsjoin.explain(joined, format="json")  # type: ignore[call-overload]


def _gone(table: BatchTable, folder: Path) -> str:
    (folder / "<b>table").rename(folder / "away")
    return table._repr_html_()


# -- the model -------------------------------------------------------------------------------------


def test_names_follow_openmetrics() -> None:
    found = monitoring.metrics()
    assert len({one.name for one in found}) == len(found) > 30
    for one in found:
        assert re.fullmatch(r"bsjoin_[a-z][a-z_]*[a-z]", one.name), one
        assert not one.unit or one.name.endswith(f"_{one.unit}"), one
        assert not one.name.endswith(("_total", "_info", "_count", "_sum")), one
        assert one.help.endswith("."), one
        assert one.labels[0] == "query", one


def test_every_metric_has_a_value_and_counters_add_up() -> None:
    found = [*totals(full(0), full(1), full(2)).samples()]
    assert {one.metric for one in found} == {*monitoring.metrics()}
    assert value(found, "bsjoin_input_rows_total", join="1", on="k") == 30
    assert value(found, "bsjoin_open_seconds_total") == pytest.approx(0.006)
    assert value(found, "bsjoin_cache_size_bytes", host="h-1") == 700
    assert value(found, "bsjoin_partition_rows", partition="1") == 4
    assert value(found, "bsjoin_kafka_routed_rows_total", topic="named", outcome="found") == 27
    assert value(found, "bsjoin_kafka_waiting_rows", topic="named") == 4  # of the last one
    assert value(found, "bsjoin_table_refresh_failed") == 1
    assert value(found, "bsjoin_table_refresh_timestamp_seconds") == NOON.timestamp()
    assert value(found, "bsjoin_table_lag_seconds") == 2.5
    assert value(found, "bsjoin_table_applied_versions_total") == 5  # of the application, not of
    assert value(found, "bsjoin_table_read_whole_versions_total") == 2  # each micro-batch
    assert value(found, "bsjoin_placement_rent_dollars") == 0.25
    assert value(found, "bsjoin_micro_batch_duration_seconds_sum") == 1.5
    assert value(found, "bsjoin_micro_batch_duration_seconds", quantile="0.99") == 0.5


def nothing(number: int, **changed: Any) -> CycleProgress:
    """The join in a micro-batch that has no rows for it."""
    none = dict.fromkeys(("rows_in", "rows_out", "hits", "misses", "matches"), 0)
    return cycle(number, **{**none, "table_version": None, **changed})


def test_what_has_no_value_has_no_sample_and_an_idle_batch_keeps_the_ratio() -> None:
    found = [*totals(cycle(0), nothing(1)).samples()]
    assert value(found, "bsjoin_hit_ratio") == 0.9
    assert value(found, "bsjoin_table_version") == 1
    assert not [one for one in found if "cache" in one.name or "placement" in one.name]
    timed = cycle(2, refresh=RefreshProgress(last_success=NOON))  # it does not follow a source
    names = {one.name for one in totals(timed).samples()}
    assert "bsjoin_table_refresh_failed" in names
    assert not [name for name in names if "versions" in name or "lag" in name]


def observed(number: int, run: str = "q", cycle: int | None = None) -> ObservedProgress:
    return ObservedProgress(number, "2026-01-01T12:00:00Z", {}, query=run, cycle=cycle)


def ended(number: int, run: str = "1", **more: Any) -> Any:
    """Spark's progress of a micro-batch."""
    values = {
        "id": "q", "runId": run, "name": "orders", "batchId": number, "numInputRows": 10,
        "timestamp": f"2026-01-01T12:00:{number % 60:02}Z", "observedMetrics": {},
        "durationMs": {"addBatch": 1, "triggerExecution": 500},
    }  # fmt: skip
    return SimpleNamespace(**values | more)


def test_micro_batches_count_once_and_gaps_are_told() -> None:
    known = Totals()
    assert [one.number for one in known.take(observed(0), observed(1), observed(1))] == [0, 1]
    assert known.take(observed(1), observed(0)) == []
    assert [one.number for one in known.take(observed(5))] == [5]
    assert value(known.samples(), "bsjoin_unseen_micro_batches_total") == 3
    assert [one.number for one in known.take(ended(5))] == [5]  # of another run: it ran again
    assert value(known.samples(), "bsjoin_micro_batches_total") == 4
    for _ in range(3):  # two runs of a query
        for run, numbers in (("1", range(4)), ("2", range(3, 6))):
            known.take(*(ended(n, run, id="two", name="two") for n in numbers))
    assert value(known.samples(), "bsjoin_micro_batches_total", query="two") == 7
    for begun, count in ((0, 5), (5, 3)):  # cycles that begin again from zero are new
        news = [observed(n, run="c", cycle=begun + n) for n in range(count)]
        assert [one.number for one in known.take(*news, name="cycles 1")] == [*range(count)]
    assert value(known.samples(), "bsjoin_micro_batches_total", query="cycles 1") == 8


def test_a_cycle_that_fails_is_not_one_that_was_missed(
    spark: SparkSession, people: DataFrame
) -> None:
    def sink(rows: DataFrame, number: int) -> None:
        assert number
        rows.collect()

    steered = bsjoin.cycles(people, "k", sink=sink)
    for number in (1, 0, 2):
        with contextlib.nullcontext() if number else pytest.raises(AssertionError):
            steered(spark.range(4).selectExpr("id AS k"), number)
    known = Totals()
    assert [one.number for one in known.take(*steered.recentProgress)] == [1, 2]
    assert value(known.samples(), "bsjoin_unseen_micro_batches_total") == 0


def test_counters_go_on_when_a_query_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: [])  # none has a join
    known = Totals()
    known.take(ended(0))
    known.end("q")
    names = {one.name for one in known.samples()}
    assert "bsjoin_micro_batches_total" in names
    assert "bsjoin_last_micro_batch_timestamp_seconds" not in names  # a gauge
    known.take(ended(1, "2"))
    known.end("q")
    known.take(ended(0, "3", id="without a checkpoint"))
    assert value(known.samples(), "bsjoin_micro_batches_total", query="orders") == 3
    known.take(ended(0, "4", id="of another session"))
    labels = [(one.name, *one.attributes.items()) for one in known.samples()]
    assert len({*labels}) == len(labels)
    for number in range(200):  # all that run are counted, and the last of those that have ended
        known.take(ended(0, id=f"q{number}", name=None))
    assert len([one for one in known.samples() if one.metric is BATCHES]) == 202
    for number in range(200):
        known.end(f"q{number}")
    assert len([one for one in known.samples() if one.metric is BATCHES]) == 66


def test_of_joins_that_have_ended_the_counters_stay_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another run of the query has joins of its own."""
    joins = iter([[full(0)], [replace(full(1), join=2)]])
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: next(joins))
    known = Totals()
    for run, number in enumerate(("1", "2")):
        known.take(ended(run, number))
        of: dict[str, set[Metric]] = {"1": set(), "2": set()}
        for one in known.samples():
            of.get(one.attributes.get("join", ""), set()).add(one.metric)
        assert of[number] == {one for one in monitoring.metrics() if "join" in one.labels}
        assert {one.kind for one in of["1"]} == {"counter"} or number == "1"
        known.end("q")
        assert {one.metric.kind for one in known.samples() if not one.suffix} == {"counter"}


def test_a_listener_is_told_of_queries_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the metrics system of Spark would keep theirs."""
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: [])
    monkeypatch.setattr(Listener, "spark", None)
    shown: dict[str, int] = {}

    class Shows(Listener):
        def changed(self, query: str) -> None:
            shown[query] = len(self.totals.samples(query))

    listener = Shows()
    for number in range(100):
        progress = ended(0, id=f"q{number}", name=None)
        listener.onQueryProgress(SimpleNamespace(progress=progress))
        listener.onQueryTerminated(SimpleNamespace(id=f"q{number}"))
    assert len(shown) == 100
    assert [query for query, samples in shown.items() if not samples] == [
        f"q{number}" for number in range(36)
    ]


def test_refreshes_are_told_while_a_query_waits_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a table that is refreshed looks old, and one that is not, as it was with the last rows."""
    joined = cycle(0, refresh=RefreshProgress(last_success=NOON, is_failing=True))
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: [joined])
    monkeypatch.setattr(Listener, "spark", None)
    listener, waits = Listener(), SimpleNamespace(id="q")
    listener.onQueryProgress(SimpleNamespace(progress=ended(0)))
    later = RefreshProgress(last_success=NOON + timedelta(hours=1))
    monkeypatch.setattr("bsjoin.monitoring.totals.of_join", {1: later}.get)
    for _ in range(2):
        listener.onQueryIdle(waits)
    found = listener.totals.samples()
    assert value(found, "bsjoin_table_refresh_timestamp_seconds") == NOON.timestamp() + 3600
    assert value(found, "bsjoin_table_refresh_failed") == 0
    assert value(found, "bsjoin_input_rows_total") == 10
    listener.onQueryTerminated(waits)
    listener.onQueryIdle(waits)
    assert {one.metric.kind for one in listener.totals.samples() if not one.suffix} == {"counter"}


def test_routes_are_read_on_connect_and_do_not_take_joins_with_them() -> None:
    counts = {"found": 3, "recovered": 1, "waiting": 2, "expired": 0}
    fields = {"fields": [{"name": one} for one in counts]}
    row = {"values": [*counts.values()], "schema": fields}
    known = Totals()
    (made,) = known.take(ended(0, observedMetrics={"bsjoin.kafka.route named 0": row}))
    assert made.routes[0].waiting == 2
    (made,) = known.take(ended(1, observedMetrics={"bsjoin.kafka.route named 0": {"a": 1}}))
    assert made.routes == []


def test_routes_are_asked_for_at_once_in_the_session_of_the_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a report of a query that waits has not those of the micro-batch that comes next."""
    asked = []

    def figures(record: Any, kind: str, *given: Any) -> list[Any]:
        asked.append((kind, *given))
        return [record(batch, None, "named", found=3) for batch in (0, 1)]

    monkeypatch.setattr("bsjoin.metrics.progress.figures", figures)
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: [])
    waits = ended(1, numInputRows=0, durationMs={})
    known = Totals()
    known.take(ended(0), waits, ended(1), session="of the query")
    assert asked == [("routes", "1", 0, 1, "of the query")]
    assert value(known.samples(), "bsjoin_kafka_routed_rows_total", outcome="found") == 6
    told = bsjoin.kafka.progress(SimpleNamespace(recentProgress=[ended(0), waits, waits, ended(1)]))
    assert [(one.batch_id, one.found) for one in told] == [(0, 3), (1, 3)]


def test_a_server_is_asked_once_for_the_figures_of_all_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a client of Spark Connect does: each question is a query."""
    asked = []
    lines = "[]", '[{"batch":0,"execution":null,"topic":"named","found":3}]'

    class Server:
        conf = {"spark.sql.catalog.bsjoin": "there"}  # noqa: RUF012

        def sql(self, query: str, which: dict[str, Any]) -> Any:
            asked.append((query.count("bsjoin.figures"), which["first"], which["last"]))
            return SimpleNamespace(first=lambda: [f'{{"v":1,"records":{one}}}' for one in lines])

    monkeypatch.setattr("bsjoin.metrics.counted._text_of_classic", lambda *what: None)
    known = Totals()
    for number in (0, 1):
        known.take(ended(number), session=Server())
    assert asked == [(2, 0, 0), (2, 1, 1)]
    assert value(known.samples(), "bsjoin_kafka_routed_rows_total", outcome="found") == 3


def test_rows_that_wait_are_those_of_the_last_micro_batch_and_none_of_an_ended_query() -> None:
    def batch(number: int, run: str, waiting: int, end: int) -> Any:
        counts = {"found": 0, "recovered": 0, "waiting": waiting, "expired": 0, "retry": "again"}
        source = {"endOffset": {"again": {"0": end}}, "latestOffset": {"again": {"0": 9}}}
        return ended(
            number, run, observedMetrics={"bsjoin.kafka.route named 0": counts},
            json=json.dumps({"sources": [source]}),
        )  # fmt: skip

    def waits() -> list[float]:
        return [one.value for one in known.samples() if one.name == "bsjoin_kafka_waiting_rows"]

    known = Totals()
    known.take(batch(7, "1", 3, 5))  # read from where another process had stopped
    assert waits() == [7]
    known.take(batch(8, "1", 2, 9))
    assert waits() == [2]
    known.end("q")
    assert waits() == []
    known.take(batch(9, "2", 0, 9))
    assert waits() == [0]
    known.take(batch(10, "2", 4, 12))  # in real-time mode: not known
    assert waits() == []


def test_values_can_be_read_while_figures_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Totals()
    known.take(ended(0))
    begun, goes_on = threading.Event(), threading.Event()

    def away(given: Any) -> list[CycleProgress]:
        begun.set()
        assert goes_on.wait(10)
        return []

    monkeypatch.setattr("bsjoin.monitoring.totals.progress", away)
    reader = threading.Thread(target=known.take, args=(ended(1),))
    reader.start()
    assert begun.wait(10)
    other = threading.Thread(target=known.samples)
    other.start()
    other.join(5)
    assert not other.is_alive()
    goes_on.set()
    reader.join()
    assert value(known.samples(), "bsjoin_micro_batches_total") == 2


def test_openmetrics_text_can_be_read_back() -> None:
    text = openmetrics.text(sorted(totals(full()).samples(), key=lambda s: s.metric.name))
    lines = text.splitlines()
    assert lines[-1] == "# EOF"
    assert text.endswith("\n")
    types = [one.split() for one in lines if one.startswith("# TYPE")]
    assert len({one[2] for one in types}) == len(types) == len(monitoring.metrics())
    label = r'[a-z]+="(?:[^"\\\n]|\\[\\"n])*"'
    for one in lines:
        assert one.startswith("#") or re.fullmatch(
            rf"bsjoin_[a-z_]+\{{{label}(?:,{label})*\}} [-+.e0-9]+", one
        ), one


# -- the log ---------------------------------------------------------------------------------------


def event(number: int) -> Any:
    at = (NOON + timedelta(seconds=number)).isoformat()
    took = {"addBatch": 1, "triggerExecution": 1000}
    return SimpleNamespace(id="q", progress=ended(number, timestamp=at, durationMs=took))


def test_a_line_has_the_sums_of_its_time() -> None:
    told = line(totals(cycle(0), cycle(1, table_version=2), full(2)), 2.0)
    assert told == (
        "3 micro-batches; join on k: 30 rows (15/s), 90.0% with a match, version 1, 90.0% from the "
        "cache, jvm; micro-batches took 500, 500, 500 ms (p50, p95, p99); 4 rows wait, 0 expired"
    )
    told = line(totals(cycle(0, rows_in=20, cache=cached(), table_version=7), nothing(1)), 2.0)
    assert ", version 7, 90.0% from the cache" in told  # a null is not looked up, and has no part


def test_a_line_a_minute_and_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bsjoin")
    now = [0.0]
    monkeypatch.setattr("bsjoin.monitoring.log.time.monotonic", lambda: now[0])
    joins = {"of": cycle}
    monkeypatch.setattr(
        "bsjoin.monitoring.totals.progress",
        lambda given: [joins["of"](one.batchId) for one in given.recentProgress],
    )
    log = monitoring.ProgressLog()
    log.onQueryStarted(SimpleNamespace(id="q"))
    for number in range(130):
        now[0] += 1
        log.onQueryProgress(event(number))
    assert [one.levelname for one in caplog.records] == ["INFO", "INFO"]
    assert "query orders: 61 micro-batches; join on k: 610 rows (10/s)" in caplog.messages[0]
    assert "60 micro-batches; join on k: 600 rows (10/s)" in caplog.messages[1]
    joins["of"] = full
    log.onQueryProgress(event(130))
    log.onQueryTerminated(SimpleNamespace(id="q"))
    assert "10 micro-batches; join on k: 100 rows (10/s)" in caplog.messages[2]
    assert caplog.messages[2].endswith("the refresh fails: SourceError: gone")
    assert caplog.records[2].levelname == "WARNING"
    log.onQueryIdle(SimpleNamespace(id="q"))
    log.onQueryTerminated(SimpleNamespace(id="q"))
    assert len(caplog.records) == 3  # nothing to say
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: 1 / 0)
    log.onQueryProgress(event(131))  # a listener never raises
    assert "missing in the log: ZeroDivisionError" in caplog.messages[3]
    for every in (0, "-1 s", "soon"):
        with pytest.raises(ArgumentError, match="every="):
            monitoring.ProgressLog(every=every)
    with pytest.raises(ArgumentError, match="logger='orders': give a logger"):
        monitoring.ProgressLog(logger="orders")  # type: ignore[arg-type]


@pytest.fixture
def log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> monitoring.ProgressLog:
    """A log of queries whose micro-batches have one join each."""
    caplog.set_level(logging.INFO, "bsjoin")
    monkeypatch.setattr("bsjoin.monitoring.totals.progress", lambda given: [cycle(0)])
    return monitoring.ProgressLog()


def test_lines_of_two_queries_with_one_name_are_told_apart(
    log: monitoring.ProgressLog, caplog: pytest.LogCaptureFixture
) -> None:
    for query in ("one", "two"):
        log.onQueryProgress(SimpleNamespace(progress=ended(0, id=query)))
    for query in ("one", "two"):
        log.onQueryTerminated(SimpleNamespace(id=query))
    names = [message.partition(": 1 micro")[0] for message in caplog.messages]
    assert names == ["bsjoin: query orders", "bsjoin: query orders two"]


def test_a_line_is_one_whatever_a_query_is_called(
    log: monitoring.ProgressLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.onQueryProgress(SimpleNamespace(progress=ended(0, name="a\n2026 ERROR \x1b[31m")))
    log.onQueryTerminated(SimpleNamespace(id="q"))
    assert caplog.messages[0].startswith(r"bsjoin: query a\n2026 ERROR \x1b[31m: 1 micro-batch;")


# -- Spark's metrics system and OpenTelemetry ------------------------------------------------------

RELABELED = re.compile(r"```yaml title=\"prometheus.yml\"\n(.*?)```", re.DOTALL)


@functools.cache
def rules() -> list[dict[str, Any]]:
    """The rules of the page for Prometheus, as Prometheus would read them."""
    text = RELABELED.findall((ROOT / "docs/how-to/monitor.md").read_text("utf-8"))[0]
    (job,) = yaml.safe_load(text)["scrape_configs"]
    return job["metric_relabel_configs"]


def relabeled(name: str) -> dict[str, str]:
    """What Prometheus makes of a name by the rules; nothing where it drops the sample."""
    labels = {"__name__": name}
    for rule in rules():
        (source,) = rule["source_labels"]
        found = re.fullmatch(rule["regex"], labels.get(source, ""))
        if found and rule.get("action") == "drop":
            return {}
        if found:
            new = re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1"))
            labels[rule["target_label"]] = found.expand(new)
    return labels


def test_the_names_in_spark_s_servlet_become_those_of_openmetrics() -> None:
    uuid = "0b7c2f4e-1111-2222-3333-0123456789ab"
    for name in ("orders", "join_2_bsjoin_x", uuid, "заказы", "orders.v1"):
        found = [*totals(full(), name=name).samples()]
        assert len({gauge_name(one) for one in found}) == len(found)
        for one in found:
            spark_s = re.sub(r"[^A-Za-z0-9]", "_", f"app-1.driver.bsjoin.{gauge_name(one)}")
            assert relabeled(f"metrics_{spark_s}_Number") == {}
            labels = relabeled(f"metrics_{spark_s}_Value")
            assert labels.pop("__name__") == one.name
            given = {k: v for k, v in one.attributes.items() if k != "on"}
            quantile = {k: given[k] for k in given if k == "quantile"}
            plain = {k: re.sub(r"[^A-Za-z0-9]+", "_", v).strip("_") for k, v in given.items()}
            hashed = {k: f"{v}_".lstrip("_") for k, v in plain.items() if v != given[k] != uuid}
            assert all(
                re.fullmatch(re.escape(hashed[k]) + "[0-9a-f]{6}", labels.pop(k))
                for k in hashed.keys() - quantile.keys()
            ), one
            assert labels.items() <= (plain | quantile).items(), one
    values = ("заказы", "клиенты", "orders.v1", "orders-v1", "orders_v1", "", "_", "none", "a__b")
    assert len({gauge_name(Sample(BATCHES, (one,), 1)) for one in values}) == len(values) - 1


def test_the_servlet_and_opentelemetry_show_what_progress_counts(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    reader = InMemoryMetricReader()
    prometheus = monitoring.PrometheusListener(spark)
    listeners = [prometheus, monitoring.OpenTelemetryListener(MeterProvider([reader]))]
    for one in listeners:
        spark.streams.addListener(one)
    feed = Feed(spark, tmp_path)
    try:
        query = feed.run(bsjoin.join(feed.stream, people, "k", how="left"), 1, 2, None, 77)
        for one in listeners:
            soon(lambda one=one: len(one.totals.samples()) > 0, True)  # type: ignore[misc]
        counted = bsjoin.progress(query)[-1]
        assert (counted.rows_in, counted.hits) == (4, 2)

        found = servlet(spark, prometheus)
        shown = {relabeled(k).get("__name__", ""): v for k, v in found.items()}
        assert shown["bsjoin_input_rows_total"] == 4.0
        assert shown["bsjoin_hit_rows_total"] == 2.0
        seen = exported(reader)
        assert seen["bsjoin_input_rows"] == (4, "{row}")
        assert seen["bsjoin_micro_batch_duration_seconds"][1] == "s"
        assert seen["bsjoin_hit_ratio"] == (0.5, "1")
        query.stop()
        soon(lambda: "bsjoin_hit_ratio" in exported(reader), False)
        kept = {relabeled(k).get("__name__", "") for k in servlet(spark, prometheus)}
        assert "bsjoin_hit_ratio" not in kept  # the query may be started again, its counters go on
        assert "bsjoin_input_rows_total" in kept
        assert exported(reader)["bsjoin_input_rows"] == (4, "{row}")

        other = monitoring.PrometheusListener(spark)
        other.totals.take(ended(3, name="other"))
        other.changed("other")
        same = monitoring.PrometheusListener(spark)
        same.totals.take(ended(4, name="other"), ended(5, name="other"))
        same.changed("other")
        assert {2.0, 0.5} <= {*of("other", servlet(spark, prometheus)).values()}
        prometheus.close()
        assert {*servlet(spark, prometheus)} == {*of("other", servlet(spark, prometheus))} != set()
        same.close()
        other.changed("other")
        assert 1.0 in of("other", servlet(spark, prometheus)).values()
        other.close()
        other.changed("other")  # an event that comes late
        assert servlet(spark, prometheus) == {}
    finally:
        for one in listeners:
            spark.streams.removeListener(one)
        prometheus.close()
        listeners[1].close()  # type: ignore[attr-defined]


def test_an_executor_shows_what_it_has_looked_up(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    """In local mode the driver is the executor."""
    table = BatchTable.build(people, on="k", path=tmp_path / "table")
    keys = spark.range(4).selectExpr("CASE id WHEN 2 THEN NULL WHEN 3 THEN 77 ELSE id END AS k")
    joined = table.join(keys, how="left")
    assert "BsjoinLookup" in joined._jdf.queryExecution().toString()
    joined.collect()
    before = looked_up(spark)
    rows = joined.collect()
    after = looked_up(spark)
    counted = {name: after[name] - before[name] for name in ("input_rows_Count", "hit_rows_Count")}
    assert counted == {"input_rows_Count": 4, "hit_rows_Count": 2}
    assert after["output_rows_Count"] - before["output_rows_Count"] == len(rows) == 4
    assert after["open_nanoseconds_Count"] > 0
    assert after["open_tables_Value"] >= 1
    assert after["mapped_bytes_Value"] > 0


def looked_up(spark: SparkSession) -> dict[str, float]:
    """The metrics of look-ups in this process, by their names in the source."""
    jvm: Any = spark._jvm
    system = jvm.java.lang.System.getProperties().get("bsjoin.lookups")[0]
    found = snapshot(jvm, system, "_driver_bsjoin_lookups_")
    return {name.partition("_bsjoin_lookups_")[2]: value for name, value in found.items()}


def of(query: str, found: dict[str, float]) -> dict[str, float]:
    """The gauges of one query."""
    return {name: one for name, one in found.items() if f"__query_{query}_" in name}


def servlet(spark: SparkSession, listener: monitoring.PrometheusListener) -> dict[str, float]:
    """What Spark's servlet for Prometheus answers; the tests' session has no UI that serves it."""
    jvm: Any = spark._jvm
    published = listener._published or servlet.__dict__["held"]
    servlet.__dict__["held"] = published
    return snapshot(jvm, member(published, "sharedIn"), "_driver_bsjoin__")


def snapshot(jvm: Any, system: Any, part: str) -> dict[str, float]:
    """What the servlet for Prometheus writes of the metrics whose names have a part."""
    registry = member(system, "registry")
    sinks = jvm.org.apache.spark.metrics.sink
    text = sinks.PrometheusServlet(jvm.java.util.Properties(), registry).getMetricsSnapshot()
    lines = [one.split(" ") for one in text.splitlines()]
    return {name.partition("{")[0]: float(number) for name, number in lines if part in name}


def member(owner: Any, name: str) -> Any:
    """A private member of an object of Java."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def exported(reader: InMemoryMetricReader) -> dict[str, tuple[float, str]]:
    data = reader.get_metrics_data()
    return {
        metric.name: (metric.data.data_points[0].value, metric.unit)  # type: ignore[union-attr]
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.data.data_points
    }


def test_listeners_of_one_provider_share_its_instruments() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    first = monitoring.OpenTelemetryListener(provider)
    first.totals.take(*map(ended, range(5)))
    second = monitoring.OpenTelemetryListener(provider)
    second.totals.take(*map(ended, range(2)))
    assert exported(reader)["bsjoin_micro_batches"] == (2, "")  # not the sum of both
    second.totals.take(ended(2))
    assert exported(reader)["bsjoin_micro_batches"] == (3, "")
    second.close()
    second.close()
    assert exported(reader)["bsjoin_micro_batches"] == (5, "")
    first.close()
    assert exported(reader) == {}


def test_a_provider_that_is_none_and_an_api_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ArgumentError, match="meter_provider=7: give a MeterProvider"):
        monitoring.OpenTelemetryListener(7)
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(ArgumentError, match=r'pip install "bsjoin\[opentelemetry\]"'):
        monitoring.OpenTelemetryListener()


# -- the dashboard of Grafana and the reference ----------------------------------------------------


def test_the_dashboard_of_grafana_asks_for_metrics_that_are_there() -> None:
    board = json.loads((ROOT / "docs/grafana.json").read_text("utf-8"))
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= board.keys()
    known = {one.sample: one for one in monitoring.metrics()}
    known |= {f"{one.name}{end}": one for one in monitoring.metrics() for end in ("_sum", "_count")}
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len({*numbers}) > 6
    for panel in board["panels"]:
        assert {"id", "type", "title", "gridPos", "datasource", "targets"} <= panel.keys()
        assert panel["gridPos"].keys() == {"x", "y", "w", "h"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            names = re.findall(r"\bbsjoin_\w+", target["expr"])
            assert names, target
            for name in names:
                metric = known[name]
                labels = re.findall(r"\b(\w+)=~?\"", target["expr"])
                labels += re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
                assert {*labels} <= {*metric.labels}, (target, metric)
            is_rate = re.search(r"\b(rate|increase)\(", target["expr"])
            assert bool(is_rate) == any(known[n].kind == "counter" for n in names), target
    uses = {one["query"] for one in board["templating"]["list"] if one["type"] == "query"}
    assert all(name in known for one in uses for name in re.findall(r"\bbsjoin_\w+", one))


def test_the_reference_lists_the_metrics() -> None:
    text = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    shown = re.findall(r"(?m)^\| `(bsjoin_\w+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", text)
    assert shown == [
        (
            one.sample,
            one.kind,
            one.unit or "",
            ", ".join(f"`{label}`" for label in one.labels),
            one.help.replace("bsjoin.kafka.route", "`bsjoin.kafka.route`"),
        )
        for one in monitoring.metrics()
    ]
    assert len(OF_JOINS) < len(shown)
