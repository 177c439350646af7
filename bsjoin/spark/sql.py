"""Expressions as SQL text, each a plain string.

A ``Column`` that Python makes is several calls to the JVM for each operator; of a text Spark makes
the whole expression in one. Of a join these calls were most of the time that planning took
(docs/decisions/0014-jvm-runtime.md).
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

_TYPES: dict[type[T.DataType], str] = {T.TimestampType: "timestamp_ltz"}
"""Types that a setting gives another meaning."""


_PLAIN = re.compile(r"\w+", re.ASCII)
"""A name that Spark never takes for a regular expression (``quotedRegexColumnNames``)."""


def quoted(name: str) -> str:
    """A column name as Spark reads it literally, dots and backticks included."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> str:
    """A column by its name, whatever characters that has and whatever a setting says of them."""
    if _PLAIN.fullmatch(name):
        return quoted(name)
    return f"identifier({text(quoted(name))})"


def text(value: str) -> str:
    """A string, whatever characters it has and whatever a setting says of backslashes."""
    return f"cast(X'{value.encode().hex()}' AS string)"


def select(rows: DataFrame, *added: str) -> DataFrame:
    """The columns of a DataFrame, and others behind them, with their names."""
    return rows.selectExpr("*", *added)


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
