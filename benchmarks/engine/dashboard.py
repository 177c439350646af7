"""The page of ``bsjoin.dashboard``: what it costs while a browser has it open."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from benchmarks.data.tables import row_of
from benchmarks.harness.machine import cpu_s
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import configured, rate_stream, running
from benchmarks.harness.timing import Times, median_of, outcome, ratio
from bsjoin import monitoring
from bsjoin.monitoring.dashboard import page as text_of_page
from bsjoin.monitoring.watching import Watched

_BOUND = 0.01
_AS_SPARK = {"spark.sql.streaming.numRecentProgressUpdates": 100}
_NOTE = (
    "Micro-batches of 10,000 rows, two a second. The CPU of the page is that of its threads: the "
    "server's, one for each request, and the one that looks while nobody asks. The browser's own "
    "is in neither column."
)


def run(context: Context) -> Outcome:
    """The same query with and without the page, in turns; quick: one join, and seconds for each."""
    figures: list[Figure] = []
    measured: dict[str, Times] = {}
    for joins in context.pick((1,), (1, 6)):
        of = f"{joins} join{'s' if joins > 1 else ''}"
        with _running(context, joins) as query:
            cores = measured[of] = _in_turns(context, query)
        figures.append(median_of(f"the page's CPU, share of a core, {of}", cores["page"], _BOUND))
        name = f"CPU of the whole program, with the page / without, {of}"
        figures.append(ratio(name, cores["with"], cores["without"], at_most=True, by_round=True))
    return outcome("CPU of a program with an open page", measured, figures, _NOTE, "cores")


@contextmanager
def _running(context: Context, joins: int) -> Iterator[StreamingQuery]:
    """A query that is warm, of two micro-batches a second."""
    spark = context.spark
    size = 100_000
    with TemporaryDirectory(dir=context.data) as folder:
        key = F.col("id")
        made = spark.range(size).select(key.alias("k"), *row_of(key))
        table = bsjoin.BatchTable.build(made, on="k", unique=True, path=Path(folder) / "table")
        rows = rate_stream(spark, 10_000).select((F.col("value") % size).alias("k"))
        for _ in range(joins):
            rows = table.join(rows, "k", "semi")
        writer = rows.writeStream.format("noop").trigger(processingTime="500 milliseconds")
        # Not as many reports as other benchmarks keep.
        with configured(spark, _AS_SPARK), running(writer, folder) as query:
            time.sleep(context.pick(2, 20))
            yield query


def _in_turns(context: Context, query: StreamingQuery) -> Times:
    """The CPU of the program without the page and with it, and of the page's threads, by round.

    One watch for all rounds: a page reads what the query did in its own time and in that before,
    when none was open. That is twice what a page reads that stays open, and not each time all that
    Spark has kept, which is more than a round has.
    """
    found: Times = {"without": [], "with": [], "page": []}
    watched, seconds = Watched([query]), context.pick(4.0, 20.0)
    for _ in range(context.pick(1, 5)):
        begun, used = time.monotonic(), cpu_s()
        time.sleep(seconds)
        found["without"].append((cpu_s() - used) / (time.monotonic() - begun))
        program, page = _opened(watched, context.pick(10.0, 20.0))
        found["with"].append(program)
        found["page"].append(page)
        context.say(f"  the page: {page:.4f} of a core")
    return found


def _opened(watched: Watched, seconds: float) -> tuple[float, float]:
    """The page is opened, and asked as often as its script asks: cores of program and page."""
    pause_s, seen, data = _pause_s(), -1, dict[str, Any]()
    begun, used, own = time.monotonic(), cpu_s(), time.thread_time()
    with monitoring.Dashboard(watched, 0, frozenset()) as page, _counted(page) as cpu:
        _ask(page, "")
        while (left_s := begun + seconds - time.monotonic()) > 0:
            if told := _ask(page, f"data.json?seen={seen}"):
                data = json.loads(told)
                seen = data["number"]
            time.sleep(min(pause_s, left_s))
        took, page_s = time.monotonic() - begun, cpu()
    used, own = cpu_s() - used, time.thread_time() - own
    if not data or not data["queries"][0]["joins"]:
        raise AssertionError("the page has shown no join")
    return (used - own) / took, page_s / took


def _pause_s() -> float:
    """The pause between two requests of a page whose query runs, by its script."""
    found = re.search(rb"pauseMs = isOver \? \d+ : (\d+)", text_of_page()[0])
    if found is None:
        raise AssertionError("the script of the page does not say how often it asks")
    return int(found[1]) / 1e3


def _ask(page: monitoring.Dashboard, path: str) -> bytes:
    """The answer, on a connection of its own: the server keeps none open."""
    connection = http.client.HTTPConnection(urlsplit(page.url).netloc, timeout=10)
    try:
        connection.request("GET", f"/{path}", headers={"Sec-Fetch-Site": "same-origin"})
        answer = connection.getresponse()
        if answer.status not in (200, 204):
            raise AssertionError(f"the page answers {answer.status}")
        return answer.read()
    finally:
        connection.close()


@contextmanager
def _counted(page: monitoring.Dashboard) -> Iterator[Callable[[], float]]:
    """Yield a function that tells the seconds of CPU of the page's threads, while it is open."""
    server, lock, answered_s = page._server, threading.Lock(), [0.0]
    answer = server.process_request_thread

    def counted(*arguments: Any) -> None:
        try:
            answer(*arguments)
        finally:
            with lock:
                answered_s[0] += time.thread_time()  # of the thread, which is for this request

    server.process_request_thread = counted
    lasting = [one for one in threading.enumerate() if one.name == "bsjoin-dashboard"]
    clocks = [time.pthread_getcpuclockid(one.ident) for one in lasting if one.ident is not None]
    if len(clocks) < 2:
        raise AssertionError("the page's threads have other names")

    def told() -> float:
        with lock:
            return answered_s[0] + sum(map(time.clock_gettime, clocks))

    yield told
