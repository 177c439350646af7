"""Conditions of ``where=`` that a worker checks with Arrow's functions as exactly as Spark does.

These are comparisons of two columns, or of a column and a constant, of integers, dates, times,
binary, booleans, or texts without a collation; whether a column is null; and AND, OR and NOT of all
these. They are the same total orders of the same values, in logic with nulls, and none can fail, so
it makes no difference in which order, or of which pairs, they are computed. Floating-point numbers
have another order in Arrow, decimals other precisions, and CHAR(n) is padded: Spark checks those.

The condition is read as Catalyst has analyzed it: types are settled there, and each cast is seen.
Columns are told by their identities: a reference may have another name than the column has now.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812

from bsjoin.plan import Call, StageColumn
from bsjoin.planner.keys import is_collated

_LOGIC = {"And": "and_kleene", "Or": "or_kleene", "Not": "invert"}
_NULLS = {"IsNull": "is_null", "IsNotNull": "is_valid"}
_ORDERS = {
    "EqualTo": "equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
}
_INTEGERS = ("byte", "short", "integer", "long")
"""From the narrowest to the widest: a cast to a later one keeps the value."""
_CONSTANTS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    "string": str,
    "date": datetime.date.fromisoformat,
    "boolean": {"true": True, "false": False}.__getitem__,
}
_KINDS: dict[type[T.DataType], str] = {
    T.ByteType: "byte",
    T.ShortType: "short",
    T.IntegerType: "integer",
    T.LongType: "long",
    T.DateType: "date",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp_ntz",
    T.BinaryType: "binary",
    T.BooleanType: "boolean",
    T.StringType: "string",
}
_MOST = 200  # expressions, which a worker gets one inside the other


class _OtherError(LookupError):
    """A condition that Spark checks."""


@dataclass(frozen=True)
class Named:
    """A column of a pair of rows, by its name in lower case."""

    name: str


@dataclass(frozen=True)
class _Node:
    """An expression of Catalyst."""

    kind: str
    fields: dict[str, Any]
    children: list[_Node]


def check_of(tree: str, pairs: T.StructType, ids: Sequence[int]) -> Call | None:
    """A condition over the columns of pairs of rows, whose columns are :class:`Named`.

    Args:
        tree: the analyzed condition, as ``TreeNode.toJSON`` has it.
        pairs: the columns.
        ids: their identities.

    Returns:
        None where Spark has to check it.

    Complexity: O(length of the tree).
    """
    times = Counter(field.name.lower() for field in pairs)
    known = zip(ids, pairs, strict=True)
    columns = {number: field for number, field in known if times[field.name.lower()] == 1}
    nodes = json.loads(tree)
    if len(nodes) > _MOST:
        return None
    try:
        return _logic(_node(iter(nodes)), columns)
    except (LookupError, ValueError):
        return None


def placed(check: Call, column: Callable[[Named], StageColumn]) -> Call:
    """The same with the columns of a stage."""
    return replace(
        check,
        values=tuple(
            placed(one, column)
            if isinstance(one, Call)
            else column(one)
            if isinstance(one, Named)
            else one
            for one in check.values
        ),
    )


def names_in(check: Call) -> Iterator[str]:
    """The names of its columns, in lower case."""
    for one in check.values:
        if isinstance(one, Call):
            yield from names_in(one)
        elif isinstance(one, Named):
            yield one.name


def _node(nodes: Iterator[dict[str, Any]]) -> _Node:
    """The next expression of a list in which each is followed by its children."""
    fields = next(nodes)
    children = [_node(nodes) for _ in range(fields["num-children"])]
    return _Node(fields["class"].rpartition(".")[2], fields, children)


def _logic(node: _Node, columns: dict[int, T.StructField]) -> Call:
    """A condition."""
    if node.kind in _LOGIC:
        return Call(_LOGIC[node.kind], tuple(_logic(one, columns) for one in node.children))
    if node.kind in _NULLS:
        return Call(_NULLS[node.kind], (Named(_field(node.children[0], columns).name.lower()),))
    if node.kind == "AttributeReference":  # of a boolean
        return Call("equal", (_column(node, columns)[0], pa.scalar(True)))
    function = _ORDERS[node.kind]
    (one, kind), (other, same) = (_value(child, columns) for child in node.children)
    if kind != same or not (isinstance(one, Named) or isinstance(other, Named)):
        raise _OtherError
    return Call(function, (one, other))


def _value(node: _Node, columns: dict[int, T.StructField]) -> tuple[Any, str]:
    """A column or a constant, and the type in which it is compared."""
    if node.kind == "Cast":
        value, kind = _value(node.children[0], columns)
        wider = node.fields["dataType"]
        if kind not in _INTEGERS or wider not in _INTEGERS[_INTEGERS.index(kind) :]:
            raise _OtherError
        return value, wider
    if node.kind == "Literal":
        text, kind = node.fields["value"], node.fields["dataType"]
        if text is None or "\ufffd" in text:  # what stands for bytes that are no text
            raise _OtherError
        return pa.scalar(_CONSTANTS[kind](text)), kind
    return _column(node, columns)


def _field(node: _Node, columns: dict[int, T.StructField]) -> T.StructField:
    if node.kind != "AttributeReference":
        raise _OtherError
    return columns[node.fields["exprId"]["id"]]


def _column(node: _Node, columns: dict[int, T.StructField]) -> tuple[Named, str]:
    field = _field(node, columns)
    kind = _KINDS[type(field.dataType)]
    if kind == "string" and (is_collated(field.dataType) or field.metadata):
        raise _OtherError
    return Named(field.name.lower()), kind
