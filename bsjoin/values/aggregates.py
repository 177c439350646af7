"""Aggregates of rows as users write them: ``"avg(price)"``, ``"count(*)"``, as in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from bsjoin.errors import ArgumentError, suggest

Function = Literal["count", "sum", "min", "max", "avg"]

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(`(?:[^`]|``)+`|\*|\w+(?:\.\w+)*)\s*\)\s*")


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate function over the rows that match.

    Args:
        function: its name, in lower case.
        column: the table's column; None for ``count(*)``, and ``count(1)``.
    """

    function: Function
    column: str | None

    @classmethod
    def parse(cls, text: str) -> AggregateCall:
        """Read a call; the column's name may be in backquotes, and must be if it is no plain name.

        Raises:
            ValueError: it is no call of a function that is known, over a column.

        >>> AggregateCall.parse("AVG( price )"), str(AggregateCall.parse("max(`a b`)"))
        (AggregateCall(function='avg', column='price'), 'max(`a b`)')
        """
        found = _CALL.fullmatch(text)
        if found is None or (found[2].isdigit() and found[1].lower() != "count"):
            raise ValueError(
                f"{text!r} is not a function of one column of the table. Compute other values as a "
                "column of the table first"
            )
        name, column = found[1].lower(), found[2]
        if column.isdigit() and name == "count":  # as people write count(*), too
            column = "*"
        if name not in get_args(Function):
            raise ValueError(f"the function {found[1]!r}: {suggest(name, get_args(Function))}")
        if column == "*":
            if name != "count":
                raise ValueError(f"{text!r}: only count(*) is of all columns")
            return cls("count", None)
        if column.startswith("`"):
            column = column[1:-1].replace("``", "`")
        return cls(cast(Function, name), column)

    def __str__(self) -> str:
        column = self.column
        if column is None:
            return "count(*)"
        if not re.fullmatch(r"\w+", column) or column.isdigit():
            column = "`" + column.replace("`", "``") + "`"
        return f"{self.function}({column})"


def aggregate_calls(value: object) -> tuple[tuple[str, str], ...]:
    """The names of columns and the normal forms of their calls, of the argument ``agg``.

    Raises:
        ArgumentError: it is something else, or a text is no call.

    >>> aggregate_calls({"n": "COUNT(*)", "dearest": "max(price)"})
    (('n', 'count(*)'), ('dearest', 'max(price)'))
    """
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, Sequence) or not all(map(_is_pair, pairs)):
        raise ArgumentError(
            f"agg={value!r}: give the names of the columns and what they are, such as "
            '{"n": "count(*)", "avg_price": "avg(price)"}'
        )
    calls = []
    for name, text in pairs:
        try:
            calls.append((name, str(AggregateCall.parse(text))))
        except ValueError as error:
            raise ArgumentError(f"agg={{{name!r}: {text!r}}}: {error}") from None
    names = [name for name, _ in calls]
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise ArgumentError(f"agg={value!r} names {doubled[0]!r} twice")
    return tuple(calls)


def _is_pair(one: object) -> bool:
    return (
        isinstance(one, Sequence)
        and not isinstance(one, str)
        and len(one) == 2
        and all(isinstance(part, str) and part for part in one)
    )
