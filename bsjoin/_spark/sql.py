"""Expressions as SQL text, each a plain string.

A ``Column`` that Python makes is several calls to the JVM for each operator; of a text Spark makes
the whole expression in one. Of a join these calls were most of the time that planning took
(docs/decisions/0014-jvm-runtime.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin._spark.columns import quoted

__all__ = ["case", "cast", "column", "named", "select", "text", "try_cast"]

_TYPES: dict[type[T.DataType], str] = {T.TimestampType: "timestamp_ltz"}
"""Types that a setting gives another meaning."""


_VARIABLE = "${"
"""What follows it in a text is the name of a variable to Spark, which puts the value there."""
_PLAIN = re.compile(r"\w+", re.ASCII)
"""A name that Spark never takes for a regular expression (``quotedRegexColumnNames``)."""


def column(name: str) -> str:
    """A column by its name, whatever characters that has and whatever a setting says of them."""
    if _PLAIN.fullmatch(name):
        return quoted(name)
    return f"identifier({text(quoted(name))})"


def text(value: str) -> str:
    """A string, whatever characters it has and whatever a setting says of backslashes."""
    return f"cast(X'{value.encode().hex()}' AS string)"


def named(value: str, name: str, metadata: Mapping[str, Any]) -> str | Column:
    """A value with a name and the metadata of a column, for :func:`select`."""
    if metadata or _VARIABLE in name:
        return F.expr(value).alias(name, metadata=dict(metadata))
    return f"{value} AS {quoted(name)}"


def select(rows: DataFrame, *added: str | Column, without: Sequence[str] = ()) -> DataFrame:
    """The columns of a DataFrame, and others behind them.

    Args:
        rows: the DataFrame.
        added: the others, with their names.
        without: columns of the DataFrame to leave out.
    """
    kept = f"* EXCEPT ({', '.join(map(quoted, without))})" if without else "*"
    texts = [one for one in added if isinstance(one, str)]
    if len(texts) == len(added):
        return rows.selectExpr(kept, *texts)
    columns = (F.expr(one) if isinstance(one, str) else one for one in (kept, *added))
    return rows.select(*columns)


def cast(value: str, dtype: T.DataType) -> str:
    """``Column.cast`` to a number, a time, a string or binary."""
    return f"cast({value} AS {_type(dtype)})"


def try_cast(value: str, dtype: T.DataType) -> str:
    """``Column.try_cast``, likewise."""
    return f"try_cast({value} AS {_type(dtype)})"


def case(*branches: tuple[str, str], otherwise: str = "NULL") -> str:
    """``F.when(...).when(...).otherwise(...)``: the value of the first condition that holds."""
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def _type(dtype: T.DataType) -> str:
    return _TYPES.get(type(dtype), dtype.simpleString())
