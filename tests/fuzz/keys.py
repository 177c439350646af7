"""Keys that are expressions of the stream's columns: drawn, evaluated exactly, and for Spark.

They are written as in SQL: ``"coalesce(s1, s2)"``; other keys are the names of columns.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from tests.fuzz.case import Columns, Row
from tests.fuzz.values import COLLATED, KINDS, compared, folded, order


def _chosen(choose: Callable[..., Any]) -> Callable[..., Any]:
    """The greatest or the least, of which null is none."""
    return lambda _, *values: choose((v for v in values if v is not None), key=order, default=None)


def _of_value(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _, value: None if value is None else function(value)


_OF_NULLS: dict[str, Callable[..., Any]] = {
    "coalesce": lambda _, one, other=None: other if one is None else one,
    "nullif": lambda kind, one, other: (
        None if compared(kind, one) == compared(kind, other) else one
    ),
}
_OF_ORDERS = {"greatest": _chosen(max), "least": _chosen(min)}
_OF_TEXTS = {
    "lower": _of_value(str.lower),
    "upper": _of_value(str.upper),
    "reverse": _of_value(lambda text: text[::-1]),
}
_OF_NUMBERS = {
    # Decimals of Python are rounded by the minus sign; integers of Spark may overflow.
    "negative": _of_value(lambda v: -v if isinstance(v, float) else v.copy_negate()),
}
_FUNCTIONS = {**_OF_NULLS, **_OF_ORDERS, **_OF_TEXTS, **_OF_NUMBERS}


def drawn(draw: random.Random, name: str, columns: Columns) -> str:
    """An expression of a column, of its type."""
    kind = dict(columns)[name]
    is_text = KINDS[kind].arrow == "string"
    is_signed = kind in ("float", "double") or kind.startswith("decimal")
    functions = ["coalesce", *[*_OF_TEXTS] * is_text, *[*_OF_NUMBERS] * is_signed]
    others = [other for other, its in columns if its == kind and other != name]
    if others:
        functions += ["nullif", *([] if kind.startswith(COLLATED) else _OF_ORDERS)]
    function = draw.choice(functions)
    is_pair = others and function in ("coalesce", "nullif", *_OF_ORDERS)
    return f"{function}({name}, {draw.choice(others)})" if is_pair else f"{function}({name})"


def _read(key: str) -> tuple[str, list[str]]:
    """The function, or nothing, and the columns."""
    function, *arguments = re.findall(r"\w+", key)
    return (function, arguments) if arguments else ("", [function])


def values(keys: Sequence[str], columns: Columns, row: Row) -> list[Any]:
    """The keys of a row of the stream, with what their collations call the same."""
    names, found = [name for name, _ in columns], []
    for key in keys:
        function, arguments = _read(key)
        places = [names.index(name) for name in arguments]
        kind, given = columns[places[0]][1], [row[place] for place in places]
        value = _FUNCTIONS[function](kind, *given) if function else given[0]
        found.append(folded(kind, value))
    return found


def column(key: str, of: Callable[[str], Column] = F.col) -> Column:
    """A key in Spark; ``of`` finds a column of the stream."""
    function, arguments = _read(key)
    given = [of(name) for name in arguments]
    return getattr(F, function)(*given) if function else given[0]


def is_expression(key: str) -> bool:
    """Whether a key is no column."""
    return "(" in key
