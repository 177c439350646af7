"""The range part of a join's condition: bands, points in intervals, overlaps, as-of.

Each condition is a frozen value that says which columns meet and how. It joins the equality
keys of ``on`` by "and"; with ``on=[]`` it stands alone. Whether the columns' types suit it is
checked when it is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, Self, get_args

from bsjoin.durations import seconds
from bsjoin.errors import ArgumentError, suggest

__all__ = [
    "AsOf",
    "Band",
    "Closed",
    "Condition",
    "Direction",
    "Overlaps",
    "Width",
    "Within",
    "condition_from_json",
    "condition_to_json",
]

Closed = Literal["both", "left", "right", "neither"]
Direction = Literal["backward", "forward", "nearest"]
Width = int | float | Decimal | timedelta | str


@dataclass(frozen=True)
class Band:
    """The table's value lies in a band around the stream's.

    ``stream - before <= batch <= stream + after``. Null never matches. Near the ends of a type's
    range the band ends there, it does not wrap round.

    Args:
        stream_col: the stream's column.
        batch_col: the table's column.
        before: how far below the stream's value the band begins: a number for numbers; a
            ``timedelta``, a text such as ``"5 minutes"`` or a number of seconds for timestamps;
            whole days as ``timedelta`` or text for dates. May be negative, so that the band lies
            wholly on one side.
        after: how far above it ends.
        closed: which of the two ends belong to it: "both", "left", "right", "neither".

    Raises:
        ArgumentError: the band is empty, or an argument is no width.

    Example:
        >>> Band("departed_at", "measured_at", before="1 hour", after=0)
        Band(stream_col='departed_at', batch_col='measured_at', before='1 hour', after=0, \
closed='both')
    """

    stream_col: str
    batch_col: str
    before: Width
    after: Width
    closed: Closed = "both"

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.batch_col, "batch_col")
        _one_of(self.closed, "closed", get_args(Closed))
        before, after = _size(self.before, "before"), _size(self.after, "after")
        # Infinities of different signs have no sum, and no band between them.
        opposite = before.is_infinite() and after == -before
        length = Decimal(-1) if opposite else before + after
        if length < 0 or (length == 0 and self.closed != "both"):
            raise ArgumentError(
                f"before={self.before!r}, after={self.after!r}, closed={self.closed!r}: this band "
                "is empty, nothing lies in it; before + after must be above zero, or zero with "
                'closed="both"'
            )

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return (self.stream_col,)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return (self.batch_col,)

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns."""
        return replace(self, stream_col=stream[0], batch_col=table[0])


@dataclass(frozen=True)
class Within:
    """The stream's point lies in the table's interval.

    A null end is open-ended; a null start, and a null point, never match. An empty interval has
    no point in it.

    Args:
        stream_col: the stream's column.
        start_col: where the table's interval begins.
        end_col: where it ends.
        closed: which of the two ends belong to it; by default the start does and the end does
            not, as for validity from one day until another.

    Example:
        >>> Within("sold_at", "valid_from", "valid_to").closed
        'left'
    """

    stream_col: str
    start_col: str
    end_col: str
    closed: Closed = "left"

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.start_col, "start_col")
        _column(self.end_col, "end_col")
        _one_of(self.closed, "closed", get_args(Closed))

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return (self.stream_col,)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return self.start_col, self.end_col

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns."""
        return replace(self, stream_col=stream[0], start_col=table[0], end_col=table[1])


@dataclass(frozen=True)
class Overlaps:
    """The stream's interval and the table's share a point.

    A null end is open-ended; a null start never matches. An empty interval shares no point.

    Args:
        stream: the stream's columns, (start, end).
        batch: the table's columns, (start, end).
        closed: which ends belong to the intervals, of both sides alike.

    Example:
        >>> Overlaps(("from", "to"), ("begins", "ends")).batch
        ('begins', 'ends')
    """

    stream: tuple[str, str]
    batch: tuple[str, str]
    closed: Closed = "left"

    def __post_init__(self) -> None:
        for name in ("stream", "batch"):
            pair = getattr(self, name)
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise ArgumentError(f"{name}={pair!r}: give two column names, (start, end)")
            for column in pair:
                _column(column, name)
            object.__setattr__(self, name, tuple(pair))
        _one_of(self.closed, "closed", get_args(Closed))

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return self.stream

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return self.batch

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns."""
        return replace(self, stream=tuple(stream), batch=tuple(table))  # type: ignore[arg-type]


@dataclass(frozen=True)
class AsOf:
    """At most one row of the table: the nearest to the stream's point.

    Strings and binary have an order, but no distances: "backward" and "forward" without a tolerance
    suit them. Floating-point rows are near enough between ``point - tolerance`` and
    ``point + tolerance``, computed in double, as Spark does. Of rows equally near, "nearest" takes
    the earlier one. Of rows with the same value one fixed row is taken: the same in a batch, in a
    stream and after a restart.

    Args:
        stream_col: the stream's column.
        batch_col: the table's column.
        direction: "backward": the last row not after the point; "forward": the first not before
            it; "nearest": whichever is nearer.
        tolerance: how far away the row may be; as the widths of :class:`Band`.
        exact: whether a row at the point itself counts.

    Raises:
        ArgumentError: a negative tolerance, an unknown direction.

    Example:
        >>> AsOf("departed_at", "measured_at", tolerance="1 hour").direction
        'backward'
    """

    stream_col: str
    batch_col: str
    direction: Direction = "backward"
    tolerance: Width | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        _column(self.stream_col, "stream_col")
        _column(self.batch_col, "batch_col")
        _one_of(self.direction, "direction", get_args(Direction))
        if self.tolerance is not None and _size(self.tolerance, "tolerance") < 0:
            raise ArgumentError(f"tolerance={self.tolerance!r}: it must not be negative")
        if not isinstance(self.exact, bool):
            raise ArgumentError(f"exact={self.exact!r}: give True or False")

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """The stream's columns."""
        return (self.stream_col,)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return (self.batch_col,)

    def renamed(self, stream: Sequence[str], table: Sequence[str]) -> Self:
        """The same condition on other columns."""
        return replace(self, stream_col=stream[0], batch_col=table[0])


Condition = Band | Within | Overlaps | AsOf

_MICROSECOND = timedelta(microseconds=1)
_MOST_DIGITS = 1000
_KINDS: dict[str, type[Condition]] = {
    kind.__name__: kind for kind in (Band, Within, Overlaps, AsOf)
}
_WIDTHS: dict[str, tuple[type[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (int, lambda width: str(int(width)), int),
    "float": (float, lambda width: repr(float(width)), float),
    "decimal": (Decimal, str, Decimal),
    "microseconds": (
        timedelta,
        lambda t: int(t // _MICROSECOND),
        lambda n: timedelta(microseconds=n),
    ),
    "text": (str, str, str),
}
_IN_WIDTHS = ("before", "after", "tolerance")


def condition_to_json(when: Condition) -> dict[str, Any]:
    """The condition as plain JSON: its name and its arguments, widths with their type."""
    arguments = {field.name: getattr(when, field.name) for field in fields(when)}
    for name in _IN_WIDTHS:
        width = arguments.get(name)
        if width is not None:
            kind, write = next((k, w) for k, (t, w, _) in _WIDTHS.items() if isinstance(width, t))
            arguments[name] = {kind: write(width)}
    return {type(when).__name__: arguments}


def condition_from_json(data: object) -> Condition:
    """The inverse of :func:`condition_to_json`, for data that anybody may have written.

    Raises:
        ValueError: it is not a condition.
    """
    name, arguments = _only(data)
    if name not in _KINDS or not isinstance(arguments, dict):
        raise ValueError(f"{name!r} is not a range condition. {suggest(str(name), _KINDS)}")
    kind = _KINDS[name]
    if arguments.keys() != {field.name for field in fields(kind)}:
        raise ValueError(f"{name} does not have the arguments {sorted(map(str, arguments))}")
    given = dict(arguments)
    for width in _IN_WIDTHS:
        if given.get(width) is not None:
            given[width] = _width_from_json(given[width])
    return kind(**given)


def _width_from_json(data: object) -> Width:
    kind, value = _only(data)
    if kind not in _WIDTHS or type(value) is not (int if kind == "microseconds" else str):
        raise ValueError(f"{data!r} is not a width. {suggest(str(kind), _WIDTHS)}")
    try:
        width: Width = _WIDTHS[kind][2](value)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"{data!r} is not a width: {error!r}") from error
    return width


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


def _size(width: object, argument: str) -> Decimal:
    """A width as a number, if only to see its sign; durations in seconds."""
    if isinstance(width, bool):
        raise ArgumentError(f"{argument}={width!r}: give a width, not a truth value")
    if isinstance(width, int | float | Decimal):
        size = Decimal(width)
        if size.is_nan():
            raise ArgumentError(f"{argument}={width!r}: give a number")
        # An exponent of nine digits would be a number of a gigabyte.
        if size.is_finite() and size and abs(size.adjusted()) > _MOST_DIGITS:
            raise ArgumentError(f"{argument}: a width has at most {_MOST_DIGITS} digits")
        return size
    return Decimal(seconds(width, argument))  # type: ignore[arg-type]
