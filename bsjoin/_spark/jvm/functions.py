"""The functions of the jar in SQL: find a row, then get its columns.

``find`` returns the reference of a key's first row, a long, or -1. A column of the table is one
more function of the reference, so a column that is not used is never read.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import StoredTable
from bsjoin._spark import sql
from bsjoin._spark.jvm.attach import call
from bsjoin._spark.keys import KeySide, fits_8_bytes, is_binary_collation
from bsjoin._spark.planned_join import PlannedJoin
from bsjoin._spark.session import is_connect
from bsjoin._spark.workers import check_workers, workers_python

__all__ = ["TableFunctions", "batch_clock", "is_read"]

_READ = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
)
_MOST_KEYS = 4
"""Of more key columns the find is evaluated once, see ``Function.java``: filters stay above it."""
_OBJECTS = (T.StringType, T.BinaryType, T.DecimalType)
"""Types whose values are objects to generated code."""


def is_read(dtype: T.DataType) -> bool:
    """Whether the functions read columns of a type."""
    if isinstance(dtype, T.StringType):
        return is_binary_collation(dtype)
    return isinstance(dtype, _READ)


def batch_clock() -> str:
    """The timestamp of the micro-batch: microseconds since the epoch, as a text."""
    batch = call("batch time")
    spelled_out = "cast(unix_micros(`current_timestamp`()) AS string)"
    return sql.case((f"{batch} IN ('unknown', 'now')", spelled_out), otherwise=batch)


@dataclass(frozen=True)
class TableFunctions:
    """The functions of one table, in SQL.

    Args:
        table: which table, and which version.
        python: the commands of Python to try, to copy the files of a table behind a URL.
    """

    table: StoredTable
    python: tuple[str, ...] = ()

    @classmethod
    def of(cls, spark: SparkSession, table: StoredTable) -> TableFunctions:
        """The functions of a table.

        Raises:
            WorkerEnvironmentError: the table is behind a URL, and the workers' Python cannot run
                bsjoin.
        """
        if table.location.is_local:
            return cls(table)
        check_workers(spark)
        # The driver of a cluster may not have the Python that its executors have.
        pythons = [workers_python(spark), None if is_connect(spark) else sys.executable]
        return cls(table, tuple(dict.fromkeys(filter(None, pythons))))

    def clock(self) -> str:
        """The time that chooses the version for a row: microseconds since the epoch, as a text.

        Of a micro-batch it is the timestamp in Spark's offset log, which a replay has again. In
        real-time mode, whose batches run for minutes, it goes on. The optimizer knows which, and
        leaves one of the three.
        """
        is_real_time = f"{call('batch time')} = 'now'"
        return sql.case((is_real_time, self.call("now")), otherwise=batch_clock())

    def call(self, what: str, *arguments: str, **more: Any) -> str:
        table = self.table
        which = {"path": table.location.url, "epoch": table.epoch, "version": table.version or 0}
        if table.max_staleness_us:
            more["staleness"] = table.max_staleness_us
        if self.python:
            more["python"] = self.python
        return call(what, *arguments, **which, **more)

    def version(self, clock: str) -> str:
        """The number of the version that the time chooses: in one row of a task, else null."""
        if self.table.version is not None:
            return str(self.table.version)
        return self.call("version", clock)

    def find(self, planned: PlannedJoin, key: KeySide, clock: str) -> str:
        """The reference of a key's first row; negative if it is not there, null for a null key."""
        types, ranged = planned.join.key_types, planned.join.ranged
        keys = "hash" if key.integer is None else "integer"
        arguments = [key.searched, clock]
        if key.compared:
            kind, value = _compared(key.compared, types)
            arguments, keys = [*arguments, value], kind
        expected: dict[str, Any] = {
            "unique": planned.plan.needs_unique,
            "on": [[column.name, column.type] for column in self.table.keys],
        }
        if ranged is not None:
            expected["ranged"] = [ranged.names, ranged.types, ranged.closed]
        if len(planned.join.stream_keys) > _MOST_KEYS:
            expected["once"] = True
        return self.reference("find", *arguments, keys=keys, **expected)

    def reference(self, what: str, *arguments: str, **more: Any) -> str:
        """The result of a function that finds a row: to Spark it may be null, for ``or_missing``.

        If it was never null, Spark would leave out what ``or_missing`` adds.
        """
        return self.call(what, *arguments, nullable=True, **more)

    def or_missing(self, found: str, searched: str) -> str:
        """A reference that is negative where it would be null.

        The pattern, which is never compared with anything, makes Spark count the whole expression
        as expensive: a filter on its result (inner joins) then stays above it instead of
        evaluating it twice, while filters on other columns move below (SPARK-47672).

        Args:
            found: the reference, of :meth:`reference`.
            searched: what it was found by: a column that is not constant.
        """
        missing = sql.case((f"rlike(cast({searched} AS string), '^$')", "-2L"), otherwise="-1L")
        return f"coalesce({found}, {missing})"

    def code(self, value: str, dtype: T.DataType, *, unit: int = 1, up: bool = False) -> str:
        """The code by which a value of a range column is searched; null for null.

        Args:
            value: the value.
            dtype: its type.
            unit: how many units of a decimal's last digit a code is.
            up: whether a value between two codes gets that above.
        """
        if isinstance(dtype, T.LongType):
            return value
        code = self.call("code", value, type=dtype.jsonValue(), unit=unit, up=up)
        # Spark calls no function with a null that is primitive.
        return sql.case((f"{value} IS NOT NULL", code)) if isinstance(dtype, _OBJECTS) else code

    def count(self, reference: str) -> str:
        """How many rows follow with the same key, this one included; 0 for -1."""
        return self.call("count", reference)

    def get(self, reference: str, column: str, field: T.StructField, *, there: bool) -> str:
        """The value of a column.

        Args:
            reference: of the row.
            column: its name in the table.
            field: its type and nullability.
            there: whether every reference is that of a row.
        """
        named = {"column": column, "type": field.dataType.jsonValue(), "nulls": field.nullable}
        return self.call("get", reference, nullable=field.nullable or not there, **named)


def _compared(values: tuple[str, ...], types: tuple[T.DataType, ...]) -> tuple[Any, str]:
    """How keys are compared where equal hashes do not imply equal keys, and the key."""
    if len(values) == 1 and isinstance(types[0], T.StringType):
        return "text", values[0]
    if len(values) == 1 and isinstance(types[0], T.BinaryType):
        return "binary", values[0]
    # Of a key column that fits into its hash, the hash is compared.
    parts = [
        T.StructField(f"k{i}", T.LongType() if fits_8_bytes(dtype) else dtype, nullable=False)
        for i, dtype in enumerate(types)
    ]
    named = (f"'{part.name}', {value}" for value, part in zip(values, parts, strict=True))
    return T.StructType(parts).jsonValue(), f"named_struct({', '.join(named)})"
