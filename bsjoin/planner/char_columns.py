"""Columns of the type CHAR(n), which Spark compares as if both sides had the longer one's length.

To Spark's readers such a column is a string, padded with spaces to its length, with its type as
metadata, which selections and renamings keep. Spark's join pads the shorter of two such columns; a
CHAR and any other string it compares as they are. A table is stored as it was read, so here the
stream's value gets the length of the table's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bsjoin.errors import KeyTypeError

_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"char\((\d+)\)", re.IGNORECASE)
_AS_STRINGS = "spark.sql.legacy.charVarcharAsString"
_PADDED = "spark.sql.readSideCharPadding"


def char_length(metadata: Mapping[str, Any]) -> int | None:
    """The length of a CHAR(n) column; None for any other.

    >>> char_length({"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}), char_length({})
    (5, None)
    """
    found = _CHAR.match(str(metadata.get(_TYPE, "")))
    return int(found[1]) if found else None


def check_char_pair(
    spark: SparkSession,
    stream: tuple[str, int | None],
    table: tuple[str, int | None],
    *,
    ordered: bool,
) -> tuple[int, int] | None:
    """Check two columns that are compared: of each its name, and its length if it is a CHAR(n).

    ``ordered`` says whether their order matters; else only whether they are equal.

    Returns:
        Both lengths where the stream's values need the table's; else None.

    Raises:
        KeyTypeError: the columns cannot be compared as Spark compares them.
    """
    (left, of_stream), (right, of_table) = stream, table
    if of_stream is None or of_table is None or _is_on(spark, _AS_STRINGS, "false"):
        return None
    pair = f"{left!r} (char({of_stream})) and {right!r} (char({of_table}))"
    cast = f'cast both to strings, as in df.withColumn({left!r}, F.col({left!r}).cast("string"))'
    if not _is_on(spark, _PADDED, "true"):
        raise KeyTypeError(
            f"cannot compare {pair}: {_PADDED} is false, so that Spark reads CHAR(n) as it was "
            f"written, and pads it in comparisons only. Set it to true, or {cast}"
        )
    if of_stream == of_table:
        return None
    if ordered:
        raise KeyTypeError(
            f"cannot compare {pair} by their order: Spark pads the shorter one, and the table is "
            f"sorted without. Give both the same length, or {cast}"
        )
    return of_stream, of_table


def check_padded(df: DataFrame, names: Iterable[str]) -> None:
    """Refuse to store columns to join by that other sessions would read with padding.

    Raises:
        KeyTypeError: one is a CHAR(n), and this session reads it without.
    """
    wanted = {name.lower() for name in names}
    chars = [
        (field.name, length)
        for field in df.schema
        if field.name.lower() in wanted and (length := char_length(field.metadata)) is not None
    ]
    spark = df.sparkSession
    if not chars or _is_on(spark, _AS_STRINGS, "false") or _is_on(spark, _PADDED, "true"):
        return
    name, length = chars[0]
    raise KeyTypeError(
        f"cannot store a table by {name!r} (char({length})): {_PADDED} is false, so that Spark "
        "reads it as it was written, and later joins compare it with values that are padded. Set "
        f'it to true, or cast it, as in df.withColumn({name!r}, F.col({name!r}).cast("string"))'
    )


def _is_on(spark: SparkSession, setting: str, default: str) -> bool:
    return str(spark.conf.get(setting, default)).lower() == "true"


def with_length(value: str, lengths: tuple[int, int] | None) -> str:
    """The stream's value, in SQL, with the length of the table's; as it is if that is too short.

    ``lengths`` are the stream's and the table's; None leaves it as it is.
    """
    if lengths is None:
        return value
    stream, table = lengths
    if stream < table:
        return f"rpad({value}, {table}, ' ')"
    begin = f"substring({value}, 1, {table})"
    return f"CASE WHEN rpad({begin}, {stream}, ' ') = {value} THEN {begin} ELSE {value} END"
