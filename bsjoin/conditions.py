"""The range part of a join's condition: bands, points in intervals, overlaps, as-of.

Each condition is a frozen dataclass that names the columns and how they are compared. It is
combined with the equality keys of ``on`` by AND; with ``on=[]`` it is the only condition. The
types of the columns are checked by ``bsjoin.join``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeGuard, get_args

from bsjoin.errors import ArgumentError, suggest
from bsjoin.values.aggregates import AggregateCall, aggregate_calls
from bsjoin.values.sort_order import SortOrder, sort_orders
from bsjoin.values.widths import (
    Width,
    as_width,
    is_duration,
    size_of,
    sum_of,
    width_from_json,
    width_to_json,
)

Closed = Literal["both", "left", "right", "neither"]
Direction = Literal["backward", "forward", "nearest"]
Take = Literal["all", "latest_start", "earliest_end", "shortest", "first"]
Relation = Literal["overlaps", "contains", "within", "equals", "meets"]
_IN_WIDTHS = ("before", "after", "tolerance", "at_least")
_LATER: dict[str, object] = {
    "order_by": (),
    "n": 1,
    "collect": None,
    "agg": (),
    "take": "all",
    "relation": "overlaps",
    "at_least": None,
}
"""Arguments that earlier versions of bsjoin do not know, which read conditions without them."""
_MOST_ROWS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class _OneColumnEach:
    """A condition on one column of the stream and one of the table."""

    stream_col: str
    batch_col: str

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return (self.stream_col,)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return (self.batch_col,)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        """The arguments; of a width its size, and whether that is a duration."""
        found = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return tuple(
            (is_duration(value), size_of(value))
            if name in _IN_WIDTHS and value is not None
            else value
            for name, value in found
        )

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns.

        Args:
            stream: the stream's columns, as many as :attr:`stream_columns`.
            table: the table's columns, as many as :attr:`table_columns`.
        """
        return replace(self, stream_col=stream[0], batch_col=table[0])


def _shown(when: _OneColumnEach, last: dict[str, object]) -> str:
    """A condition as it is called, with what it has of ``agg`` or ``collect``."""
    arguments = {one.name: getattr(when, one.name) for one in fields(when)}
    shown = {name: arguments[name] for name in arguments if name not in ("agg", "collect")} | last
    return f"{type(when).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


@dataclass(frozen=True, eq=False)
class Band(_OneColumnEach):
    """Band join: the table's value is within a band around the stream's value.

    ``stream - before <= batch <= stream + after``. Null never matches. At the limits of a type's
    range the band is cut off; it does not overflow. The rows of a key are found by two binary
    searches (Algorithm 5 of the BS-Join paper): O(log n) a row of the stream, plus its matches.

    Args:
        stream_col: the stream's column.
        batch_col: the table's column.
        before: how far below the stream's value the band starts: a number for numbers; a
            ``timedelta``, a text such as ``"5 minutes"`` or a number of seconds for timestamps;
            whole days as ``timedelta`` or text for dates; ``float("inf")`` for no limit. A float
            means its shortest decimal text, a day is 24 hours, and scalars of NumPy and pandas are
            accepted. It may be negative: then the band is entirely on one side of the value.
        after: how far above the stream's value the band ends; the same types as ``before``.
        closed: which of the two ends belong to the band: "both" (default), "left", "right",
            "neither".
        agg: aggregates of all rows in the band, instead of the rows: the names of columns of the
            result, and for each a function of a column of the table, as SQL has it: ``count(*)``,
            ``count(x)``, ``sum(x)``, ``min(x)``, ``max(x)`` or ``avg(x)``. Then each row of the
            stream has one row of the result; with an inner join only if there is a match, with a
            left join always: its counts are 0 without one, and its other aggregates null. Types and
            values are those of Spark's functions; sums of doubles may differ in their last digits,
            as Spark's do from run to run. It is O(log n) a row of the stream, however many rows
            match; an incremental cache reads the rows of a key that the bands of a batch span,
            once. Default: none.

    Raises:
        ArgumentError: the band is empty, an argument is not a width, or ``agg`` has something else
            than names and functions. ``join`` raises it for a width that the type of the columns
            cannot have: nothing is rounded; for an aggregate that the type of its column does not
            have; and for ``agg`` with a semi or anti join, other conditions, ``where``, ``select``
            or ``indicator``.

    Example:
        >>> Band("departed_at", "measured_at", before="1 hour", after=0)
        Band(stream_col='departed_at', batch_col='measured_at', before='1 hour', after=0, \
closed='both')
        >>> Band("at", "at", before=9, after=0, agg={"n": "count(*)", "mean": "AVG(v)"})
        Band(stream_col='at', batch_col='at', before=9, after=0, closed='both', \
agg={'n': 'count(*)', 'mean': 'avg(v)'})
    """

    before: Width
    after: Width
    closed: Closed = "both"
    agg: Mapping[str, str] | Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.batch_col, "batch_col")
        _one_of(self.closed, "closed", get_args(Closed))
        for name in ("before", "after"):
            object.__setattr__(self, name, as_width(getattr(self, name), name))
        length = sum_of(size_of(self.before), size_of(self.after))
        # Infinities of different signs have no sum, and no band between them.
        if not length >= 0 or (length == 0 and self.closed != "both"):
            raise ArgumentError(
                f"before={self.before!r}, after={self.after!r}, closed={self.closed!r}: this band "
                "is empty: no value is in it; before + after must be above zero, or zero with "
                'closed="both"'
            )
        object.__setattr__(self, "agg", aggregate_calls(self.agg))

    def __repr__(self) -> str:
        return _shown(self, {"agg": dict(self.agg)} if self.agg else {})

    @property
    def aggregates(self) -> dict[str, AggregateCall]:
        """``agg``, read, by the names in the result."""
        return {name: AggregateCall.parse(text) for name, text in dict(self.agg).items()}


@dataclass(frozen=True)
class Within:
    """Point in interval: the stream's value is within the table's interval.

    A null end means that the interval has no upper bound; a null start and a null value never
    match. An empty interval contains no value. A search tree answers in O(log n) a row of the
    stream, plus its matches.

    ``take`` returns one row of the table at most for each row of the stream: of all intervals that
    contain its point the first one in an order, as ``row_number() OVER (... ORDER BY ...) = 1`` in
    Spark, without a window after the join. Where the order of ``take`` does not decide, it is the
    first in the order of ``order_by``, then in that of all columns of the table, as for
    :class:`AsOf`. Semi and anti joins are the same with any ``take``. Of a join with ``where`` or
    with more conditions it is the first one that passes these.

    Args:
        stream_col: the stream's column.
        start_col: the table's column of the interval's start.
        end_col: the table's column of the interval's end.
        closed: which of the two ends belong to the interval: "both", "left", "right", "neither".
            Default "left": the start belongs to it and the end does not, as in ``valid_from`` and
            ``valid_to``.
        take: "all" (default): all intervals; "latest_start": the one that starts last;
            "earliest_end": the one that ends first, and a null end is the last; "shortest": the one
            with the least ``end - start``, and one with a null end is longer than all others
            (binary ends are subtracted as numbers, shorter ones filled up with zeros);
            "first": the first in ``order_by``. A :class:`bsjoin.BatchTable` that is built for
            "earliest_end", "shortest" or "first" serves every ``take``; any other one with
            intervals serves "all" and "latest_start". An end of 9223372036854775807 that belongs to
            its interval is no end.
        order_by: one or more columns of the table, as for :class:`AsOf`; only with ``take``, and
            needed for "first". Default: none. A :class:`bsjoin.BatchTable` is built for one
            ``order_by``.

    Raises:
        ArgumentError: ``closed`` or ``take`` is unknown, ``order_by`` is missing with "first" or
            given with "all". ``join`` raises ColumnError for a column of ``order_by`` that the
            table lacks, and KeyTypeError for one that has no order, and for "shortest" over
            strings, which have no length.

    Example:
        >>> Within("sold_at", "valid_from", "valid_to").closed
        'left'
        >>> Within("at", "starts", "ends", take="first", order_by="priority DESC").take
        'first'
    """

    stream_col: str
    start_col: str
    end_col: str
    closed: Closed = "left"
    take: Take = "all"
    order_by: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.start_col, "start_col")
        _column(self.end_col, "end_col")
        _one_of(self.closed, "closed", get_args(Closed))
        _one_of(self.take, "take", get_args(Take))
        object.__setattr__(self, "order_by", sort_orders(self.order_by, "order_by"))
        if self.take == "first" and not self.order_by:
            raise ArgumentError(
                'take="first": give the order in which it is the first, such as '
                'order_by="priority DESC"'
            )
        if self.take == "all" and self.order_by:
            raise ArgumentError(
                f'order_by={list(self.order_by)!r} has no meaning with take="all", which returns '
                "every interval: leave it out, or say which interval to take"
            )

    @property
    def orders(self) -> tuple[SortOrder, ...]:
        """``order_by``, read."""
        return tuple(map(SortOrder.parse, self.order_by))

    @property
    def searched_ends(self) -> Closed:
        """Which ends belong to intervals in the index."""
        return self.closed

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return (self.stream_col,)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return self.start_col, self.end_col

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns.

        Args:
            stream: the stream's columns, as many as :attr:`stream_columns`.
            table: the table's columns, as many as :attr:`table_columns`.
        """
        return replace(self, stream_col=stream[0], start_col=table[0], end_col=table[1])


@dataclass(frozen=True)
class Overlaps:
    """Two intervals: the stream's and the table's have a point in common, or another relation.

    A null end means that the interval has no upper bound; a null start never matches. An empty
    interval has no relation to any. A search tree answers in O(log n) a row of the stream, plus
    the intervals that overlap, of which each is checked for a narrower relation.

    Args:
        stream: the stream's columns, (start, end).
        batch: the table's columns, (start, end).
        closed: which ends belong to the intervals of both sides: "both", "left" (default), "right",
            "neither".
        relation: what the stream's interval has to do with the table's; in brackets PostgreSQL's
            operator between the two.

            - "overlaps" (default): they have a point in common (``&&``).
            - "contains": all of the table's is in the stream's (``@>``); they may be equal. Only an
              interval without an end contains one without an end.
            - "within": all of the stream's is in the table's (``<@``).
            - "equals": the same start, and the same end or none (``=``).
            - "meets": one ends where the other begins, on either side and whatever ``closed`` says;
              an interval without an end meets none there (``-|-``, Allen's "meets" and "met by").
              A :class:`bsjoin.BatchTable` for it has ``closed="both"``, or is built with it.
        at_least: how long the part that both have in common must be, from the later start to the
            earlier end; a width as of :class:`Band`, default None: any length. Without an end it
            is long enough. With floating-point columns ``start + at_least <= end`` in double.

    Raises:
        ArgumentError: a side is not a pair of column names, ``closed`` or ``relation`` is unknown,
            or ``at_least`` is negative, infinite, or given with "equals" or "meets".

    Example:
        >>> Overlaps(("from", "to"), ("begins", "ends")).batch
        ('begins', 'ends')
        >>> Overlaps(("from", "to"), ("begins", "ends"), at_least="1 minute").relation
        'overlaps'
    """

    stream: tuple[str, str]
    batch: tuple[str, str]
    closed: Closed = "left"
    relation: Relation = "overlaps"
    at_least: Width | None = None

    def __post_init__(self) -> None:
        for name in ("stream", "batch"):
            pair = getattr(self, name)
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise ArgumentError(f"{name}={pair!r}: give two column names, (start, end)")
            for column in pair:
                _column(column, name)
            object.__setattr__(self, name, tuple(pair))
        _one_of(self.closed, "closed", get_args(Closed))
        _one_of(self.relation, "relation", get_args(Relation))
        if self.at_least is not None:
            self._check_length()

    def _check_length(self) -> None:
        if self.relation in ("equals", "meets"):
            raise ArgumentError(
                f"at_least={self.at_least!r} with relation={self.relation!r}: it is for "
                "'overlaps', 'contains' and 'within'; intervals that meet share no more than a "
                "point, and of equal ones the stream's can be filtered by its length before"
            )
        object.__setattr__(self, "at_least", as_width(self.at_least, "at_least"))
        size = size_of(self.at_least)  # type: ignore[arg-type]
        if size < 0 or isinstance(size, float):
            raise ArgumentError(
                f"at_least={self.at_least!r}: it must not be negative or infinite; None is any "
                "length"
            )

    @property
    def searched_ends(self) -> Closed:
        """Which ends belong to intervals in the index: those that meet share an end."""
        return "both" if self.relation == "meets" else self.closed

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return self.stream

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return self.batch

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns.

        Args:
            stream: the stream's columns, as many as :attr:`stream_columns`.
            table: the table's columns, as many as :attr:`table_columns`.
        """
        return replace(self, stream=tuple(stream), batch=tuple(table))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class AsOf(_OneColumnEach):
    """As-of join: the row of the table that is nearest to the stream's value, or the n nearest.

    Strings and binary values have an order but no distance: they support "backward" and "forward"
    without a tolerance. Floating-point rows are within the tolerance between ``value - tolerance``
    and ``value + tolerance``, computed in double as Spark does. Rows on one side of the stream's
    value are in the order of their values. Distances compare rows of different sides only: if two
    are equally near, "nearest" returns the earlier one first, and never NaN, which has no distance.
    O(log rows) a row of the stream; for each further one that it returns O(1) in the JVM and
    O(log rows) in Python workers.

    Rows with the same key and the same value are in the order of ``order_by``: of several the
    first one is returned, or the first ``n``, as by ``row_number() OVER (... ORDER BY distance,
    value, order_by) <= n`` in Spark, wherever distances are exact. Where ``order_by`` does not
    decide, it is the first in the order of all columns of the table, ascending, from the table's
    first column on, whether they are selected or not. So a full cache reads all columns of the
    table, and so does a look-up with an incremental cache.

    Args:
        stream_col: the stream's column.
        batch_col: the table's column.
        direction: "backward" (default): the last row that is not after the stream's value;
            "forward": the first row that is not before it; "nearest": the nearer of the two.
        tolerance: the maximum distance of the row, of the same types as the widths of
            :class:`Band`. ``None`` (default): any distance.
        exact: whether a row with the same value matches; default True.
        order_by: one or more columns of the table that order rows with the same key and value:
            ``"priority"``, ``"priority DESC"``, ``"priority DESC NULLS LAST"``. The default is that
            of Spark: ascending, nulls first; with DESC nulls last. A name in backquotes is taken as
            it is. They need not be selected. Default: none. A :class:`bsjoin.BatchTable` is built
            for one ``order_by``.
        n: how many rows are returned at most, the nearest ones; default 1. A row of the stream has
            a row of the result for each of them. The table need not be built for it.
        collect: the name of a column that has all of them, nearest first, as an array of structs of
            the table's columns. Then each row of the stream has one row of the result: with an
            inner join if there is a match, with a left join always. Without a match the array is
            empty, as Spark's ``collect_list`` has it. Semi and anti joins are the same with and
            without. Default: none, and the rows are rows of the result.

    Raises:
        ArgumentError: the tolerance is negative, the direction is unknown, ``order_by`` names no
            column, ``n`` is not a whole number from 1 to 2147483647, or ``collect`` is no name.
            ``join`` raises it for ``collect`` with ``where``, with other conditions, or without a
            column; ColumnError for a column that the table lacks, or a name in ``collect`` that the
            stream has; and KeyTypeError for a column that has no order, such as a map.

    Example:
        >>> AsOf("departed_at", "measured_at", tolerance="1 hour").direction
        'backward'
        >>> AsOf("departed_at", "measured_at", order_by=["quality desc", "station"]).order_by
        ('quality DESC NULLS LAST', 'station ASC NULLS FIRST')
        >>> AsOf("departed_at", "measured_at", tolerance="1 hour", n=3).n
        3
        >>> AsOf("departed_at", "measured_at", n=3, collect="readings").collect
        'readings'
    """

    direction: Direction = "backward"
    tolerance: Width | None = None
    exact: bool = True
    order_by: str | Sequence[str] = ()
    n: int = 1
    collect: str | None = None

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.batch_col, "batch_col")
        _one_of(self.direction, "direction", get_args(Direction))
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", as_width(self.tolerance, "tolerance"))
            if size_of(self.tolerance) < 0:
                raise ArgumentError(f"tolerance={self.tolerance!r}: it must not be negative")
        if not isinstance(self.exact, bool):
            raise ArgumentError(f"exact={self.exact!r}: give True or False")
        object.__setattr__(self, "order_by", sort_orders(self.order_by, "order_by"))
        is_whole = isinstance(self.n, int) and not isinstance(self.n, bool)
        if not is_whole or not 1 <= self.n <= _MOST_ROWS:
            raise ArgumentError(
                f"n={self.n!r}: give how many rows to return at most, a whole number from 1 to "
                f"{_MOST_ROWS}"
            )
        if self.collect is not None and not (isinstance(self.collect, str) and self.collect):
            raise ArgumentError(
                f"collect={self.collect!r}: give the name of the column for the array of the "
                'nearest rows, for example collect="readings"'
            )

    def __repr__(self) -> str:
        return _shown(self, {} if self.collect is None else {"collect": self.collect})

    @property
    def orders(self) -> tuple[SortOrder, ...]:
        """``order_by``, read."""
        return tuple(map(SortOrder.parse, self.order_by))


Condition = Band | Within | Overlaps | AsOf


def chooses(when: object) -> TypeGuard[AsOf | Within]:
    """Whether a condition takes the first rows that match, in some order."""
    return isinstance(when, AsOf) or (isinstance(when, Within) and when.take != "all")


def without_aggregates(when: Condition) -> Condition:
    """The same condition, which returns rows: without ``agg`` or ``collect``."""
    if isinstance(when, Band) and when.agg:
        return replace(when, agg=())
    return replace(when, collect=None) if isinstance(when, AsOf) and when.collect else when


_KINDS: dict[str, type[Condition]] = {
    kind.__name__: kind for kind in (Band, Within, Overlaps, AsOf)
}


def condition_to_json(when: Condition) -> dict[str, Any]:
    """The condition as plain JSON: its name and its arguments, widths with their type."""
    arguments = {field.name: getattr(when, field.name) for field in fields(when)}
    for name in _IN_WIDTHS:
        width = arguments.get(name)
        if width is not None:
            arguments[name] = width_to_json(width)
    for name, default in _LATER.items():
        if name in arguments and arguments[name] == default:
            del arguments[name]
    return {type(when).__name__: arguments}


def condition_from_json(data: object) -> Condition:
    """The inverse of :func:`condition_to_json`, for data that is not trusted.

    Raises:
        ValueError: it is not a condition.
    """
    name, arguments = _only(data)
    if name not in _KINDS or not isinstance(arguments, dict):
        raise ValueError(f"{name!r} is not a range condition. {suggest(str(name), _KINDS)}")
    kind = _KINDS[name]
    known = {field.name for field in fields(kind)}
    if not known - _LATER.keys() <= arguments.keys() <= known:
        raise ValueError(f"{name} does not have the arguments {sorted(map(str, arguments))}")
    given = dict(arguments)
    for width in _IN_WIDTHS:
        if given.get(width) is not None:
            given[width] = width_from_json(given[width])
    return kind(**given)


def _only(data: object) -> tuple[Any, Any]:
    if not isinstance(data, Mapping) or len(data) != 1:
        raise ValueError(f"{data!r} is not an object with one name")
    return next(iter(data.items()))


def _column(name: object, argument: str) -> None:
    if not isinstance(name, str):
        raise ArgumentError(f"{argument}={name!r}: give the name of a column")


def _one_of(value: object, argument: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ArgumentError(f"{argument}={value!r} is not known. {suggest(str(value), choices)}")
