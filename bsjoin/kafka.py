"""Rows of Kafka that come before their row of the table: tried again by a topic of their own.

One query joins the stream, another one what has to wait. Both end with :func:`route`, whose result
is for Spark's Kafka sink, which sends each row to the topic in its column ``topic``.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType

from bsjoin.errors import ArgumentError, ColumnError, suggest
from bsjoin.metrics.progress import counted_in, observed_row
from bsjoin.runtimes.jvm.attach import call, is_attached, lacks_planner
from bsjoin.spark import compat
from bsjoin.spark.session import is_dataframe
from bsjoin.spark.sql import column
from bsjoin.values.durations import seconds

__all__ = ["WAITED_SINCE", "WAITING_SINCE", "RouteProgress", "progress", "route"]

WAITING_SINCE = "bsjoin-waiting-since"
"""The header of a record that had to wait: since when, in milliseconds since the epoch, as text;
empty between its first miss and the second."""

WAITED_SINCE = "bsjoin-waited-since"
"""What the header is called of a record that was found at last: in another stream, which may be
routed, too, it does not wait yet."""

_OBSERVED = "bsjoin.kafka.route "
_CALLS = itertools.count()
_FOR_EVER_MS = 1 << 62
_EPOCHS = "TIMESTAMP_LTZ '1970-01-01 00:00:00Z'", "TIMESTAMP_LTZ '1970-01-01 00:00:00.000001Z'"
_HEADERS = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True)
class RouteProgress:
    """What :func:`route` did with the rows of a micro-batch, or of a batch of real-time mode.

    Args:
        batch_id: its number, as Spark's.
        topic: the topic of rows that were found.
        found: rows that went there.
        recovered: those of them that had to wait before, for this table or one that the record was
            joined with earlier.
        waiting: rows that went to the retry topic.
        expired: rows that went to the dead letters.
        waiting_now: rows that wait after the micro-batch: those that it sent to the retry topics of
            its calls, and the records there that it has left unread (of a retry topic that several
            topics share, with the first of these alone), as far as the query reads them; None
            (default) where it reads none, in real-time mode, and of one that a restart repeats, for
            Spark does not tell what the topics have then. With the trigger ``availableNow`` and a
            limit, those that earlier micro-batches of the run have sent are missing.
    """

    batch_id: int
    topic: str
    found: int
    recovered: int
    waiting: int
    expired: int
    waiting_now: int | None = None


def route(
    joined: DataFrame,
    *,
    value: Column | str,
    topic: str,
    retry: str,
    dead: str,
    patience: timedelta | str | float,
    found: str = "found",
) -> DataFrame:
    """Rows for Spark's Kafka sink: those with a match to one topic, the others to try again.

    A row that is found goes to ``topic``, with a new value; another one, as it came, to ``retry``,
    which a second query reads; and one that has waited longer than ``patience`` to ``dead``. Its
    key and headers stay, and the header ``bsjoin-waiting-since`` (:data:`WAITING_SINCE`) tells
    since when it waits; of one that is found it is ``bsjoin-waited-since`` (:data:`WAITED_SINCE`).
    Where a row goes depends on the record and the table's version alone, not on the time of the
    query: a micro-batch that runs again sends the same rows to the same places.

    Args:
        joined: a left join with ``indicator=``, of a stream of Kafka (read with the option
            ``includeHeaders``) that still has its columns ``key``, ``value``, ``headers`` and
            ``timestamp``.
        value: the value of rows that are found, a column of strings or binary, or SQL text over
            the columns of ``joined``, such as ``"to_json(struct(order_id, name))"``.
        topic: where they go.
        retry: where rows without a match go.
        dead: where they go after the patience.
        patience: how long a row waits from its first miss on, by the timestamps of its records: a
            timedelta, ``"10 minutes"``, or seconds. The old timestamps of records that are read
            again from the start do not count.
        found: the name that ``indicator=`` has; default ``"found"``.

    Returns:
        The columns ``key``, ``value``, ``headers`` and ``topic``, a row for each of ``joined``.
        Give the sink no option ``topic``: it would send all rows there.

    Raises:
        ArgumentError: two topics are the same, or one is no text; the patience is no duration
            above zero; the value is neither text nor binary.
        ColumnError: ``joined`` lacks a column.

    Complexity: O(1) a row; a row that waits is read once in each micro-batch of the second query,
        so its trigger (``processingTime="30 seconds"``) is the pause between two tries.

    Example:
        >>> from pyspark.sql import functions as F
        >>> records = orders.selectExpr(
        ...     "CAST('7' AS BINARY) AS key", "CAST(string(order_id) AS BINARY) AS value",
        ...     "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        ...     "current_timestamp() AS timestamp", "customer_id")
        >>> joined = bsjoin.join(records, customers, on="customer_id", how="left",
        ...                      indicator="found")
        >>> routed = bsjoin.kafka.route(joined, value="name", topic="enriched", retry="retry",
        ...                             dead="dead", patience="10 minutes")
        >>> routed.columns
        ['key', 'value', 'headers', 'topic']
    """
    patience_ms = _checked(joined, {"topic": topic, "retry": retry, "dead": dead}, patience, found)
    new = F.expr(value) if isinstance(value, str) else value
    kind = joined.select(new.alias("value")).schema["value"].dataType
    if not isinstance(kind, StringType | BinaryType):
        raise ArgumentError(
            f"value={value!r} is of type {kind.simpleString()}, and values of Kafka are text or "
            "binary: give to_json(struct(...)), or a cast"
        )
    headers, hit, at = map(column, ("headers", found, "timestamp"))
    given = F.col("value")
    if joined.schema["value"].dataType != BinaryType():
        given = given.cast("binary")
    # Kafka has a time in each record; a call of null is null. What stands for it is the same
    # millisecond, but not the same expression, which Spark would look for and generate code for.
    sent_at, at = (f"coalesce({at}, {epoch})" for epoch in _EPOCHS)
    hit = f"coalesce({hit}, false)" if joined.schema[found].nullable else hit
    spark = joined.sparkSession
    in_jvm, number = is_attached(spark) and lacks_planner(spark) is None, next(_CALLS)
    if in_jvm:
        sent = F.expr(call("routed headers", headers, hit, sent_at))
        places = {"topic": topic, "retry": retry, "dead": dead, "patience_ms": patience_ms}
        places["call"] = number
        # It counts by partitions, in plans of the session: see CountingStrategy.java.
        arguments = headers, hit, at, "spark_partition_id()"
        to = F.expr(call("routed topic", *arguments, once=True, **places))
    else:
        sent = F.expr(_headers(headers, hit, at))
        # A header of somebody else's making may have any number: no difference of that is taken.
        is_late = F.expr(f"{_since(headers)} < unix_millis({at}) - {patience_ms}")
        to = F.when(F.expr(hit), topic).when(is_late, dead).otherwise(retry)
    # One projection: of each that is left Spark makes a plan in each micro-batch.
    rows = joined.select(
        F.col("key"),
        # A text and binary have no common type where ANSI mode is off.
        F.when(F.expr(hit), new.cast("binary")).otherwise(given).alias("value"),
        sent.alias("headers"),
        to.alias("topic"),
    )
    if in_jvm:
        return rows
    return rows.observe(
        f"{_OBSERVED}{topic} {number}",  # Spark takes each name once
        _count(F.col("topic") == topic).alias("found"),
        _count(
            (F.col("topic") == topic) & F.array_contains(F.col("headers.key"), WAITED_SINCE)
        ).alias("recovered"),
        _count(F.col("topic") == retry).alias("waiting"),
        _count(F.col("topic") == dead).alias("expired"),
        F.lit(retry).alias("retry"),
    )


def _headers(headers: str, hit: str, at: str) -> str:
    """The headers that are sent, as ``Routed.java`` makes them."""
    known = f"coalesce({_since(headers)}, unix_millis({at}))"
    place, given = _place(headers), f"coalesce({headers}, CAST(array() AS {_HEADERS}))"
    behind = f"slice({headers}, {place} + 1, size({headers}))"
    name = f"IF({hit}, '{WAITED_SINCE}', '{WAITING_SINCE}')"
    told = (
        f"slice({headers}, 1, {place} - 1), {_header(name, f'CAST({known} AS STRING)')}, {behind}"
    )
    return (
        f"CASE WHEN {place} > 0 THEN concat({told})"
        f" WHEN {hit} THEN {given}"
        f" ELSE concat({given}, {_header(repr(WAITING_SINCE), repr(''))}) END"
    )


def _place(headers: str) -> str:
    """Where the first header is that tells since when a record waits, from 1 on; 0 or null."""
    return f"CAST(array_position({headers}.key, '{WAITING_SINCE}') AS INT)"


def _since(headers: str) -> str:
    """Since when it waits; null if that is not told, or by something else than a number."""
    return f"try_cast(CAST(get({headers}, {_place(headers)} - 1).value AS STRING) AS BIGINT)"


def _header(name: str, text: str) -> str:
    return f"array(named_struct('key', {name}, 'value', CAST({text} AS BINARY)))"


def _count(condition: Column) -> Column:
    """How many rows fulfil it: as ``count_if``, which Spark's optimizer would have to replace."""
    return F.count(F.when(condition, 1))


def _checked(
    joined: DataFrame, topics: dict[str, str], patience: timedelta | str | float, found: str
) -> int:
    """Check the arguments; the patience in milliseconds."""
    if not is_dataframe(joined):
        raise ArgumentError(f"joined={joined!r:.200} is no DataFrame: give the result of a join")
    for name, given in topics.items():
        if not isinstance(given, str) or not given:
            raise ArgumentError(f"{name}={given!r} is not the name of a topic")
    if len(set(topics.values())) < len(topics):
        listed = ", ".join(f"{name}={given!r}" for name, given in topics.items())
        raise ArgumentError(f"{listed}: give three topics, or rows of one are taken for another's")
    patience_ms = round(min(seconds(patience, "patience") * 1000, _FOR_EVER_MS))
    if patience_ms < 1:
        raise ArgumentError(f"patience={patience!r}: give a duration of a millisecond or more")
    todo = {
        "headers": "read the stream with .option('includeHeaders', 'true')",
        found: f"join with how='left', indicator={found!r}",
    }
    for name in ("key", "value", "headers", "timestamp", found):
        if name not in joined.columns:
            raise ColumnError(
                f"the rows to route have no column {name!r}: "
                f"{todo.get(name, 'keep what the source brings')}. {suggest(name, joined.columns)}"
            )
    return patience_ms


def progress(query: Any) -> list[RouteProgress]:
    """What :func:`route` did, one entry per micro-batch and topic.

    Args:
        query: a ``StreamingQuery``, or one ``StreamingQueryProgress`` (from a listener's event).

    Returns:
        A list of :class:`RouteProgress`, oldest micro-batch first; empty for another query. Where
        the JVM counts (a classic session that has bsjoin's jar), a function for ``foreachBatch``
        may route, too, but not the sink of :func:`bsjoin.cycles`: of several actions on the rows of
        a call, that one counts which had most, and several calls add up, those of a try that failed
        included.

    Raises:
        ArgumentError: it is something else.

    Example:
        >>> [one.waiting for one in bsjoin.kafka.progress(query)]
        []
    """
    batches = getattr(query, "recentProgress", [query])
    if not all(hasattr(batch, "observedMetrics") for batch in batches):
        raise ArgumentError(
            f"progress() of a {type(query).__name__}: give a StreamingQuery, or the progress of one"
        )
    counted = counted_in(_Routed, "routes", batches, compat.session_of(query))
    found: list[RouteProgress] = []
    for batch in batches:
        routed = _counting([*_observed(batch), *counted(batch)])
        waits = _waiting_now(batch, routed) if routed else {}
        for topic, some in itertools.groupby(routed, _topic):
            calls = [*some]
            sums = {name: sum(getattr(one, name) for one in calls) for name in _OUTCOMES}
            found.append(RouteProgress(batch.batchId, topic, **sums, waiting_now=waits.get(topic)))
    return found


_OUTCOMES = ("found", "recovered", "waiting", "expired")
_topic = attrgetter("topic")


@dataclass(frozen=True)
class _Routed:
    """What became of the rows of one action: as Spark observes it, or ``Routed.java`` counts."""

    batch: int
    execution: str | None
    topic: str
    retry: str | None = None
    call: int = 0
    found: int = 0
    recovered: int = 0
    waiting: int = 0
    expired: int = 0


def _observed(batch: Any) -> Iterator[_Routed]:
    """What Spark has observed in a micro-batch."""
    for name, row in batch.observedMetrics.items():
        if name.startswith(_OBSERVED):
            topic, _, number = name.removeprefix(_OBSERVED).rpartition(" ")
            yield _Routed(batch.batchId, None, topic, call=int(number), **observed_row(row))


def _counting(routed: Iterable[_Routed]) -> list[_Routed]:
    """What became of the rows of each call in the action that had most of them, by topic."""
    actions: dict[tuple[int, str | None], list[_Routed]] = {}
    for one in routed:
        actions.setdefault((one.call, one.execution), []).append(one)
    most: dict[int, list[_Routed]] = {}
    for (number, _), some in actions.items():
        most[number] = max(most.get(number, some), some, key=_rows)
    return sorted(itertools.chain.from_iterable(most.values()), key=_topic)


def _rows(some: Iterable[_Routed]) -> int:
    return sum(one.found + one.waiting + one.expired for one in some)


def _waiting_now(batch: Any, calls: Sequence[_Routed]) -> dict[str, int]:
    """The rows that wait after a micro-batch, by the topic of those found; none if not known.

    What it has sent, the next one reads. In real-time mode a batch reads what it has sent itself,
    again and again, and so beyond the latest offset at its start.
    """
    unread: dict[str | None, dict[str, int]] = {}
    sources = json.loads(getattr(batch, "json", "{}")).get("sources", ())
    for source, retry in itertools.product(sources, {one.retry for one in calls}):
        end, latest = (_offsets(source.get(one), retry) for one in ("endOffset", "latestOffset"))
        if end:  # partitions that have come since are read from their starts
            rows = {one: latest.get(one, -1) - end.get(one, 0) for one in {**end, **latest}}
            unread.setdefault(retry, {}).update(rows)
    if any(min(rows.values()) < 0 for rows in unread.values()):
        return {}
    waits: Counter[str] = Counter()
    for one in calls:
        if one.retry in unread:
            waits[one.topic] += one.waiting + sum(unread[one.retry].values())
            unread[one.retry] = {}  # which is told once
    return waits


def _offsets(offset: Any, topic: str | None) -> dict[str, int]:
    """The offset of each partition of a topic; none of a source that is not Kafka's."""
    found = offset.get(topic) if isinstance(offset, dict) else None
    if not isinstance(found, dict) or not all(type(one) is int for one in found.values()):
        return {}
    return found
