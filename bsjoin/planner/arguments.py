"""The arguments of a join, checked by every entry point before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import Column, DataFrame

from bsjoin.conditions import Condition, chooses
from bsjoin.errors import ArgumentError, suggest
from bsjoin.partitioning import Hash, HotSpot
from bsjoin.planner.columns import On, names_of
from bsjoin.planner.cycle import Cycle
from bsjoin.spark.session import is_dataframe, micro_batch

Partition = Hash | HotSpot | None

JoinType = Literal[
    "inner",
    "left", "leftouter", "left_outer",
    "semi", "leftsemi", "left_semi",
    "anti", "leftanti", "left_anti",
]  # fmt: skip
"""Join types, as Spark spells them."""

_JOIN_TYPES = ("inner", "left", "semi", "anti")
_SPELLINGS = {
    **{how: how for how in _JOIN_TYPES},
    "leftouter": "left",
    "leftsemi": "semi",
    "leftanti": "anti",
}
_OTHERS = {
    "outer": "full", "full": "full", "fullouter": "full",
    "right": "right", "rightouter": "right",
    "cross": "cross",
}  # fmt: skip
"""Join types of Spark that bsjoin does not have."""
_WAYS_OUT = {
    ("full", True): (
        "it returns the table's rows without a match, too, and a stream has no end: a match may "
        "still come with a later micro-batch. Use how='left' to keep the stream's rows; for the "
        "table's, write the stream to a table and join that with Spark's own join"
    ),
    ("full", False): (
        "it returns the table's rows without a match, too, and bsjoin meets only those that it "
        "looks up. The first side is a batch DataFrame: use Spark's own join, "
        "first.join(second, ..., how='full'), with the table as a DataFrame"
    ),
    ("right", True): (
        "it returns the table's rows without a match, and a stream has no end: a match may still "
        "come with a later micro-batch. Use how='left' to keep the stream's rows; for the table's, "
        "write the stream to a table and join that with Spark's own join"
    ),
    ("right", False): (
        "it returns the table's rows without a match, and bsjoin meets only those that it looks "
        "up. The first side is a batch DataFrame: swap the sides, bsjoin.join(second, first, ..., "
        "how='left'), or use Spark's own join, with the table as a DataFrame"
    ),
    ("cross", True): (
        "it has no key, and pairs every row of the stream with the whole table: use Spark's own "
        "stream.crossJoin(table), with the table as a DataFrame"
    ),
    ("cross", False): (
        "it has no key, and pairs every row with the whole table: use Spark's own "
        "first.crossJoin(second), with the table as a DataFrame"
    ),
}
"""The reasons, and what to do instead: by join type, and whether the rows have no end."""


@dataclass(frozen=True, kw_only=True)
class JoinCall:
    """The arguments of :func:`bsjoin.join`, besides its two sides and the cache.

    Args:
        on: the equality keys; no keys, in any form, are kept as ``[]``.
        when: the range condition; of several a tuple.
        how: the join type, in any spelling that Spark accepts; kept as "inner", "left", "semi" or
            "anti".
        partition: how the stream's rows are sent to partitions.
        select: the table's columns to return.
        suffix: given to those whose name the stream already has.
        nulls_equal: whether null equals null in all keys; or the keys in which it does.
        where: what each pair of rows must fulfil besides; None (default) for nothing.
        indicator: the name of a column that says whether a row has a match; None (default) for no
            such column.
        stream: the probe side, for errors that depend on it; None (default) for micro-batches.
        cycle: the cycle of ``bsjoin.cycles`` that the join is of; None (default) for any other.
        added: columns of the stream that stand for expressions in ``on``, and that nothing else
            can name; default none.

    Raises:
        ArgumentError: an argument is not of its kind, or a join type is unknown or not possible
            here.
    """

    on: On = field(default=None, compare=False)
    when: Condition | Sequence[Condition] | None = None
    how: str = "inner"
    partition: Partition = None
    select: Sequence[str] | None = None
    suffix: str = "_batch"
    nulls_equal: bool | Sequence[str] = False
    where: Column | str | None = field(default=None, compare=False)
    indicator: str | None = None
    stream: DataFrame | None = field(default=None, repr=False, compare=False)
    cycle: Cycle | None = field(default=None, repr=False, compare=False)
    added: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "how", _join_type(self.how, self.stream))
        if not (self.on is None or isinstance(self.on, str | Mapping | Sequence)):
            raise ArgumentError(
                f"on={self.on!r}: give a column name, a list of names, or a dict from the stream's "
                "names to the table's"
            )
        if self.on is not None and not isinstance(self.on, str) and not self.on:
            object.__setattr__(self, "on", [])
        self._check_when()
        if not (self.partition is None or isinstance(self.partition, Hash | HotSpot)):
            raise ArgumentError(
                f"partition={self.partition!r}: give None, bsjoin.Hash(...) or bsjoin.HotSpot(...)"
            )
        if isinstance(self.select, str) or not isinstance(self.select, Sequence | None):
            raise ArgumentError(f"select={self.select!r}: give a list of column names")
        if not isinstance(self.suffix, str):
            raise ArgumentError(
                f"suffix={self.suffix!r} is a {type(self.suffix).__name__}; give a text"
            )
        object.__setattr__(self, "nulls_equal", nulls_equal_of(self.nulls_equal))
        if not isinstance(self.where, Column | str | None):
            raise ArgumentError(
                f"where={self.where!r} is a {type(self.where).__name__}: give a Column, or a "
                "condition as SQL text, over the columns of both sides"
            )
        self._check_indicator()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All range conditions."""
        if self.when is None:
            return ()
        return (self.when,) if isinstance(self.when, Condition) else tuple(self.when)

    def _check_when(self) -> None:
        when = self.when
        if when is None or isinstance(when, Condition):
            return
        several = isinstance(when, Sequence) and len(when) > 0
        if not several or not all(isinstance(one, Condition) for one in when):
            raise ArgumentError(
                f"when={when!r}: give bsjoin.Band, bsjoin.Within, bsjoin.Overlaps or "
                "bsjoin.AsOf, or a list of them"
            )
        if sum(map(chooses, when)) > 1:
            raise ArgumentError(
                f"when={list(when)!r}: a row that is the first in two orders is not defined. Give "
                "one bsjoin.AsOf, or one bsjoin.Within with take, and for the other columns "
                "conditions that have all their matches, such as bsjoin.Band"
            )
        object.__setattr__(self, "when", when[0] if len(when) == 1 else tuple(when))

    def _check_indicator(self) -> None:
        given = self.indicator
        if given is not None and not (isinstance(given, str) and given):
            raise ArgumentError(
                f"indicator={given!r}: give the name of the column that says whether a row has a "
                'match, for example indicator="found"'
            )
        if given is not None and self.how in ("semi", "anti"):
            all_rows = "no row" if self.how == "anti" else "every row"
            raise ArgumentError(
                f"indicator={given!r} with how={self.how!r}: {all_rows} of the result has a match. "
                "Leave indicator out, or use how='left', which keeps the rows of both kinds"
            )


def _join_type(how: object, stream: DataFrame | None) -> str:
    """The join type without its spellings; upper case and underscores make no difference."""
    plain = how.lower().replace("_", "") if isinstance(how, str) else ""
    if plain in _SPELLINGS:
        return _SPELLINGS[plain]
    if plain in _OTHERS:
        endless = stream is None or stream.isStreaming or micro_batch(stream) is not None
        why = _WAYS_OUT[_OTHERS[plain], endless]
        raise ArgumentError(f"how={how!r} is not supported: {why}")
    if plain in ("asof", "leftasof"):
        hint = "Give when=bsjoin.AsOf(...)."
    else:
        known = [*_JOIN_TYPES, "left_outer", "left_semi", "left_anti"]
        hint = suggest("_".join(str(how).lower().replace("-", " ").split()), known)
        if hint.startswith("There"):
            hint = ""
    types = ", ".join(map(repr, _JOIN_TYPES))
    raise ArgumentError(f"how={how!r} is not a join type of bsjoin. {hint} They are {types}")


_AS_ONE = ". Read it by spark.table or spark.read; rows of pandas by spark.createDataFrame(rows)"


def _kind(thing: object) -> str:
    """Its type: other packages have a DataFrame, too."""
    package, name = type(thing).__module__.partition(".")[0], type(thing).__name__
    return name if package == "builtins" else f"{package}.{name}"


def probe_side(stream: object) -> None:
    """Refuse a probe side that is no DataFrame."""
    if not is_dataframe(stream):
        raise ArgumentError(
            f"the first argument is a {_kind(stream)}; it must be a Spark DataFrame "
            f"(pyspark.sql.DataFrame), streaming or not{_AS_ONE}"
        )


def table_side(batch: Any) -> None:
    """Refuse a table that is no DataFrame, or a streaming one."""
    if not is_dataframe(batch):
        raise ArgumentError(
            f"the table is a {_kind(batch)}; it must be a Spark DataFrame that is not "
            f"streaming, a bsjoin.BatchTable, or a source of bsjoin.sources{_AS_ONE}"
        )
    if batch.isStreaming:
        raise ArgumentError(
            "the table side is a streaming DataFrame; it must not be. Give the stream first: "
            "bsjoin.join(stream, table, ...). To join two streams use "
            "Spark's own stream-stream join, stream.join(other, ...), with watermarks"
        )


def key_list(on: object) -> list[str]:
    """The key columns as a list of names."""
    if isinstance(on, str):
        return [on]
    if isinstance(on, Sequence) and on and all(isinstance(name, str) for name in on):
        return list(on)
    raise ArgumentError(f"on={on!r}: give a column name, or a list of different column names")


def nulls_equal_of(given: object) -> bool | tuple[str, ...]:
    """The null-safe keys: all, none, or some by name."""
    if isinstance(given, bool):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        names = tuple(given)
        if all(isinstance(name, str) for name in names):
            return names or False
    raise ArgumentError(
        f"nulls_equal={given!r}: give True for all keys, False for none, or a list of the names of "
        "those in which null equals null"
    )


def distinct(df: Any, side: str) -> Any:
    """The schema of a DataFrame whose column names are all different."""
    names_of(df, side).check_distinct()
    return df.schema
