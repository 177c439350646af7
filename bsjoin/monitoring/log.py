"""A line in the log for each query, once a minute."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from bsjoin.errors import ArgumentError
from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.totals import MicroBatch, Totals, id_of, name_of, quantiles
from bsjoin.values.durations import seconds

__all__ = ["ProgressLog"]

_log = logging.getLogger("bsjoin")


class ProgressLog(StreamingQueryListener):
    """A listener that logs, for each query with joins of bsjoin, one line a minute.

    The line has the micro-batches and rows since the line before, rows per second, the share of
    rows with a match, how long micro-batches took, and the version of the table. A last line comes
    when a query ends. The level is ``INFO``; ``WARNING`` where a refresh of the table has failed.

    Args:
        every: how much time is between two lines of a query, at least: a timedelta, text, or
            seconds; default ``"1 minute"``. They come with Spark's events: a query whose
            micro-batches take longer has a line for each.
        logger: where they go; default the logger ``bsjoin``.

    Raises:
        ArgumentError: ``every`` is no duration above zero.

    Example:
        >>> log = bsjoin.monitoring.ProgressLog(every="1 minute")
        >>> spark.streams.addListener(log)
        >>> spark.streams.removeListener(log)
    """

    def __init__(
        self, every: timedelta | str | float = "1 minute", logger: logging.Logger = _log
    ) -> None:
        self._every_s = seconds(every, "every")
        if self._every_s <= 0:
            raise ArgumentError(f"every={every!r}: give a duration above zero, as '1 minute'")
        self._logger = logger
        self._totals = Totals()
        self._names: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._batches: dict[str, list[MicroBatch]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        self._since[str(event.id)] = time.monotonic()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        try:
            query = id_of(event.progress)
            self._names[query] = name_of(event.progress)
            taken = self._totals.take(event.progress, session=self.spark)
            self._batches.setdefault(query, []).extend(taken)
            since = self._since.setdefault(query, time.monotonic())
            if time.monotonic() - since >= self._every_s:
                self._tell(query)
        except Exception as error:
            _log.warning("bsjoin: a micro-batch is missing in the log: %s", error_text(error))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        query = str(event.id)
        if time.monotonic() - self._since.get(query, time.monotonic()) >= self._every_s:
            self._tell(query)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        query = str(event.id)
        self._tell(query)
        self._totals.forget(query)
        self._names.pop(query, None)
        self._since.pop(query, None)

    def _tell(self, query: str) -> None:
        """Log a line, if there is anything to say, and begin the next one."""
        now = time.monotonic()
        took = now - self._since.get(query, now)
        self._since[query] = now
        batches = [one for one in self._batches.pop(query, []) if one.joins]
        if not batches:
            return
        told = line(batches, took)
        failed = next((r for c in batches[-1].joins if (r := c.refresh) and r.is_failing), None)
        if failed is not None:
            told = f"{told}; the refresh fails: {failed.last_error}"
        level = logging.INFO if failed is None else logging.WARNING
        self._logger.log(level, "bsjoin: query %s: %s", self._names.get(query, query), told)


def line(batches: list[MicroBatch], took_s: float) -> str:
    """Say what micro-batches have done.

    Args:
        batches: those with joins.
        took_s: the time in which they ran, in seconds.

    Returns:
        A line without a line end.
    """
    joins = [cycle for batch in batches for cycle in batch.joins]
    parts = [f"{len(batches):,} micro-batch{'es' if len(batches) > 1 else ''}"]
    for number in dict.fromkeys(cycle.join for cycle in joins):
        own = [cycle for cycle in joins if cycle.join == number]
        rows, hits = sum(c.rows_in for c in own), sum(c.hits for c in own)
        rate = f" ({rows / took_s:,.0f}/s)" if took_s > 0 else ""
        version = own[-1].table_version
        told = f"join on {', '.join(own[-1].on) or 'a range'}: {rows:,} rows{rate}"
        told += f", {hits / rows:.1%} with a match" if rows else ""
        told += f", version {version}" if version is not None else ""
        if own[-1].cache is not None:
            cached = sum(c.cache.hits + c.cache.negative_hits for c in own if c.cache)
            told += f", {cached / rows:.1%} from the cache" if rows else ""
        parts.append(f"{told}, {own[-1].runtime}")
    durations = [batch.duration_s for batch in batches if batch.duration_s is not None]
    if durations:
        p50, p95, p99 = (f"{1e3 * q:,.0f}" for q in quantiles(durations).values())
        parts.append(f"micro-batches took {p50}, {p95}, {p99} ms (p50, p95, p99)")
    waiting = sum(route.waiting for batch in batches for route in batch.routes)
    expired = sum(route.expired for batch in batches for route in batch.routes)
    if waiting or expired:
        parts.append(f"{waiting:,} rows wait, {expired:,} expired")
    return "; ".join(parts)
