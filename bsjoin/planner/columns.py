"""The columns of a join: its keys, those of the table in the result, and their names there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import ArgumentError, ColumnError, TableNotFoundError, suggest
from bsjoin.spark.session import is_case_sensitive
from bsjoin.storage import NULL_KEYS, Manifest

On = str | Sequence[str | tuple[str | Column, str]] | Mapping[str, str] | None
"""Keys as a user gives them; where they are resolved, they are given by name."""


def check_free(columns: Iterable[str]) -> None:
    """Refuse a column of the name of what is stored of null-safe keys.

    Raises:
        ColumnError: there is one.
    """
    if NULL_KEYS in columns:
        raise ColumnError(
            f"nulls_equal: the table has a column {NULL_KEYS!r}, and bsjoin stores one of that "
            "name with keys in which null equals null. Rename it"
        )


def unused(columns: Iterable[str], *names: str) -> list[str]:
    """Names for columns of ours that no column of a DataFrame has, in upper or lower case.

    They end with more underscores than any of its columns does; those that are given end with none.

    Example:
        >>> unused(["id", "note_"], "note", "answer")
        ['note__', 'answer__']
    """
    most = max((len(column) - len(column.rstrip("_")) for column in columns), default=0)
    return [name + "_" * (most + 1) for name in names]


class Names:
    """The column names of one side, found as Spark finds them.

    Args:
        columns: the names, in order.
        side: how an error message calls this side.
        case_sensitive: whether names that differ in case only are different.
    """

    def __init__(self, columns: Sequence[str], side: str, case_sensitive: bool):
        self.columns = list(columns)
        self.side = side
        self.case_sensitive = case_sensitive
        self._fold = (lambda name: name) if case_sensitive else str.lower
        self._by_name = {self._fold(name): name for name in columns}
        self._count = Counter(map(self._fold, columns))

    def __contains__(self, name: str) -> bool:
        return self._fold(name) in self._by_name

    def same(self, one: str, other: str) -> bool:
        """Whether two names are the same to Spark."""
        return bool(self._fold(one) == self._fold(other))

    def find(self, name: object, argument: str) -> str:
        """The column's own spelling. Raises ColumnError where it is missing or doubled."""
        if not isinstance(name, str):
            raise ArgumentError(
                f"{argument}: {name!r} is a {type(name).__name__}; columns are given by name"
            )
        if name not in self:
            raise ColumnError(
                f"{argument}: {self.side} has no column {name!r}. {suggest(name, self.columns)}"
            )
        if self._count[self._fold(name)] > 1:
            raise ColumnError(
                f"{argument}: {self.side} has {self._count[self._fold(name)]} columns called "
                f"{name!r}; rename all but one"
            )
        return self._by_name[self._fold(name)]

    def check_distinct(self) -> None:
        """Raise ColumnError where a name occurs twice."""
        for name in self.columns:
            self.find(name, "columns")


def names_of(df: DataFrame, side: str) -> Names:
    """The column names of a DataFrame."""
    return Names(df.columns, side, is_case_sensitive(df.sparkSession))


def join_keys(on: On, stream: Names, table: Names) -> list[tuple[str, str]]:
    """Pairs of key columns: the stream's name and the table's.

    Raises:
        ColumnError: a column is not there.
        ArgumentError: no key at all.
    """
    if on is None:
        shared = [(name, table.find(name, "on")) for name in stream.columns if name in table]
        if not shared:
            raise ArgumentError(
                f"on=None joins on the column names that both sides share, and there are none: "
                f"{stream.side} has {stream.columns}, {table.side} has {table.columns}. Give "
                'on="column" or on={"stream column": "table column"}'
            )
        for name, _ in shared:
            stream.find(name, "on")
        return shared
    pairs: Sequence[tuple[object, object]]
    if isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    else:
        pairs = [(one, one) if isinstance(one, str) else one for one in on]
    if not pairs:
        raise ArgumentError(
            "on=[] names no column: an equality join needs at least one, and a pure range join "
            "needs when="
        )
    found = [(stream.find(s, "on"), table.find(t, "on")) for s, t in pairs]
    for side, names in (("stream", [s for s, _ in found]), ("table", [t for _, t in found])):
        doubled = [name for name, count in Counter(names).items() if count > 1]
        if doubled:
            raise ArgumentError(f"on={on!r} names the {side}'s column {doubled[0]!r} twice")
    return found


def selected(
    select: Sequence[str] | None, how: str, table: Names, keys: Sequence[str]
) -> list[str]:
    """Return the table's columns that the result has, in order.

    Raises:
        ArgumentError: ``select`` with a join whose result has none, or a name given twice.
        ColumnError: a column is not there.
    """
    if how in ("semi", "anti"):
        if select is not None:
            raise ArgumentError(
                f"select={list(select)!r}: a {how} join brings no column of the table; leave "
                "select out, or use an inner or left join"
            )
        return []
    if select is None:
        return [name for name in table.columns if name not in keys]
    found = [table.find(name, "select") for name in select]
    doubled = [name for name, count in Counter(found).items() if count > 1]
    if doubled:
        raise ArgumentError(f"select={list(select)!r} names {doubled[0]!r} twice")
    return found


def result_names(columns: Sequence[str], stream: Names, suffix: str) -> list[str]:
    """Return the names of the table's columns in the result.

    Raises:
        ColumnError: a name clashes even with the suffix.
    """
    names = [name + suffix if name in stream else name for name in columns]
    for i, name in enumerate(names):
        others = names[:i] + names[i + 1 :]
        if name in stream or any(stream.same(name, other) for other in others):
            raise ColumnError(
                f"the table's column {columns[i]!r} would be called {name!r} in the result, and "
                f"there is a column of that name already. Choose another suffix (it is "
                f"{suffix!r}), rename the column, or leave it out with select=[...]"
            )
    return names


def schema_of(manifest: Manifest) -> T.StructType:
    """The Spark schema of the columns that can be selected.

    Raises:
        TableNotFoundError: this version of Spark does not know a type that another one has stored.
    """
    try:
        # Nothing else comes here than what the store has read strictly before.
        return T.StructType.fromJson(
            json.loads(manifest.spark_schema, object_hook=_without_watermark)
        )
    except (AssertionError, KeyError, PySparkException, ValueError) as error:
        raise TableNotFoundError(
            f"version {manifest.version} of the table has a type that this version of Spark does "
            f"not know: {error}. Use the version that it was built with, or build it again"
        ) from error


def _without_watermark(found: dict[str, Any]) -> dict[str, Any]:
    """An object of JSON without the watermark of the stream whose micro-batch was stored."""
    found.pop("spark.watermarkDelayMs", None)
    return found
