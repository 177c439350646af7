"""A line in the log for each query, once a minute."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from bsjoin._show import printable
from bsjoin.errors import ArgumentError
from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.totals import QueryTotals, id_of, quantiles
from bsjoin.values.durations import seconds

_log = logging.getLogger("bsjoin")


class ProgressLog(Listener):
    """A listener that logs, for each query of the session with joins of bsjoin, a line a minute.

    The line has the micro-batches and rows since the line before, rows per second, the share of
    rows with a match, how long micro-batches took, and the version of the table. A last line comes
    when a query ends. The level is ``INFO``; ``WARNING`` where a refresh of the table has failed.

    Args:
        every: how much time is between two lines of a query, at least: a timedelta, text, or
            seconds; default ``"1 minute"``. They come with Spark's events: a query whose
            micro-batches take longer has a line for each.
        logger: where they go; default the logger ``bsjoin``.

    Raises:
        ArgumentError: ``every`` is no duration above zero, or ``logger`` is none.

    Example:
        >>> log = bsjoin.monitoring.ProgressLog(every="1 minute")
        >>> spark.streams.addListener(log)
        >>> spark.streams.removeListener(log)
    """

    def __init__(
        self, every: timedelta | str | float = "1 minute", logger: logging.Logger = _log
    ) -> None:
        super().__init__()
        self._every_s = seconds(every, "every")
        if self._every_s <= 0:
            raise ArgumentError(f"every={every!r}: give a duration above zero, as '1 minute'")
        if not isinstance(logger, logging.Logger | logging.LoggerAdapter):
            raise ArgumentError(f"logger={logger!r}: give a logger, as logging.getLogger('orders')")
        self._logger = logger
        self._since: dict[str, float] = {}
        self._told: dict[str, QueryTotals] = {}
        """By query what no line has yet: sums, and the last micro-batches."""
        self._ended: dict[str, float] = {}
        """When the last micro-batch of the line before ended."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        try:
            query = id_of(event.progress)
            for one in self.totals.take(event.progress, session=self.spark):
                if one.joins and (known := self.totals.of(query)):
                    self._told.setdefault(query, QueryTotals(known.name)).add(one)
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
        self.totals.end(query)
        self._since.pop(query, None)
        self._ended.pop(query, None)

    def _tell(self, query: str) -> None:
        """Log a line, if there is anything to say, and begin the next one."""
        self._since[query] = time.monotonic()
        found, ended = self._told.pop(query, None), self._ended.pop(query, None)
        if found is None:
            return
        last = found.recent[-1]
        self._ended[query] = last.timestamp + (last.duration_s or 0.0)
        told = line(found, self._ended[query] - (found.began if ended is None else ended))
        failed = next((r for c in last.joins if (r := c.refresh) and r.is_failing), None)
        if failed is not None:
            told = f"{told}; the refresh fails: {failed.last_error}"
        level = logging.INFO if failed is None else logging.WARNING
        self._logger.log(level, "bsjoin: query %s", printable(f"{found.name}: {told}"))


def line(found: QueryTotals, took_s: float) -> str:
    """Say in a line what micro-batches have done, and how long the last 100 took."""
    parts = [f"{found.batches:,} micro-batch{'es' if found.batches > 1 else ''}"]
    for join in found.joins.values():
        last = join.last
        rows, hits = join.value("bsjoin_input_rows"), join.value("bsjoin_hit_rows")
        rate = f" ({rows / took_s:,.0f}/s)" if took_s > 0 else ""
        told = f"join on {', '.join(last.on) or 'a range'}: {rows:,} rows{rate}"
        told += f", {hits / rows:.1%} with a match" if rows else ""
        version = join.value("bsjoin_table_version")  # the last micro-batch may have no rows
        told += f", version {version}" if version else ""
        hit, absent, missed = (
            join.value(f"bsjoin_cache_{kind}_rows") for kind in ("hit", "negative_hit", "missed")
        )
        if looked_up := hit + absent + missed:  # a null is not looked up
            told += f", {(hit + absent) / looked_up:.1%} from the cache"
        parts.append(f"{told}, {last.runtime}")
    durations = [batch.duration_s for batch in found.recent if batch.duration_s is not None]
    if durations:
        p50, p95, p99 = (f"{1e3 * q:,.0f}" for q in quantiles(durations).values())
        parts.append(f"micro-batches took {p50}, {p95}, {p99} ms (p50, p95, p99)")
    waits = f"{sum(found.waiting.values()):,} rows wait"
    if not found.waiting:  # another query tries them again
        waits = f"{_routed(found, 'waiting'):,} rows sent to wait"
    if any(found.waiting.values()) or _routed(found, "waiting") or _routed(found, "expired"):
        parts.append(f"{waits}, {_routed(found, 'expired'):,} expired")
    return "; ".join(parts)


def _routed(found: QueryTotals, outcome: str) -> int:
    return sum(rows for (_, one), rows in found.routes.items() if one == outcome)
