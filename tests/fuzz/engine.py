"""Running cases: their tables are built once, their results are held against the oracle."""

from __future__ import annotations

import datetime as dt
import itertools
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

import bsjoin
from bsjoin import BatchTable, Full, Hash, HotSpot, Incremental, functions
from bsjoin.errors import DataError, cause_of
from tests.fuzz import keys
from tests.fuzz.case import (
    Case,
    Columns,
    Join,
    Row,
    Rows,
    Table,
    result_columns,
    suffix,
    where_text,
)
from tests.fuzz.ending import ending
from tests.fuzz.exact import difference, expected
from tests.fuzz.lookup import Lookup
from tests.fuzz.networks import ends_of, text_of
from tests.fuzz.values import COLLATED, KINDS, cells, equality, fields_of
from tests.oracle import collected
from tests.sessions import CODE, configured
from tests.spark_samples import forget_last_commit, write_stream_file

_numbers = itertools.count()
_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": lambda case: str(case.batch_rows),
    "spark.sql.session.timeZone": lambda case: case.zone,
}
_INTERPRETED = CODE["python"]
_RUNTIME = "spark.bsjoin.runtime"
_CHANGE = "what has changed"
_LONGEST_S = 120
"""A case takes a second or two, the first ones and those of a stream some ten."""


class Engine:
    """Runs cases in a session.

    Args:
        spark: the session; its settings change while cases run.
        folder: for tables and checkpoints.
        first: whether to stop at the first failure.
        segment_bytes: of stored tables; by default bsjoin's own.
        applies: whether about half of the refreshes are changes that are applied.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        first: bool = False,
        segment_bytes: int | None = None,
        applies: bool = False,
    ):
        self.spark = spark
        self.applies = applies
        self.folder = folder
        self.first = first
        self.built_with = {} if segment_bytes is None else {"segment_bytes": segment_bytes}

    def failures(self, cases: Mapping[int, Case]) -> dict[int, str]:
        """The cases whose rows are wrong, and what is wrong."""
        shared = next(iter(cases.values()))
        settings = {name: value(shared) for name, value in _SETTINGS.items()}
        if not shared.generated:
            settings |= _INTERPRETED
        with configured(self.spark, settings):
            return self._failures(shared, cases)

    def _failures(self, shared: Case, cases: Mapping[int, Case]) -> dict[int, str]:
        folder = self.folder / str(next(_numbers))
        folder.mkdir(parents=True)
        used = {join.table for case in cases.values() for join in case.joins}
        try:
            tables = _Tables(self.spark, folder, shared.tables, used, self)
        except Exception as error:
            return {next(iter(cases)): f"the tables: {_told(error)}"}
        try:
            run = self._streaming if shared.cuts else self._batch
            return run(folder, tables, cases)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _batch(self, folder: Path, tables: _Tables, cases: Mapping[int, Case]) -> dict[int, str]:
        shared = next(iter(cases.values()))
        stream = frame(self.spark, shared.stream.arrow()).coalesce(shared.parts)
        found = {}
        with configured(self.spark, {_RUNTIME: shared.joins[0].runtime}):
            if wrong := _wrong_refusal(stream, shared.stream):
                found[next(iter(cases))] = wrong
        for number, case in sorted(cases.items(), key=lambda item: item[1].version(0)):
            tables.refresh(case.version(0))
            try:
                result = self._joined(stream, tables, case)
                # What a source has answered, the second run finds in the cache.
                runs = 2 if any(shared.tables[join.table].limits for join in case.joins) else 1
                with ending(self.spark, _LONGEST_S):
                    rows = {0: [collected(result) for _ in range(runs)]}
                wrong = _wrong_schema(result, case) or _wrong_rows(rows, case)
            except Exception as error:
                wrong = _told(error)
            if wrong:
                found[number] = wrong
                if self.first:
                    break
        return found

    def _streaming(
        self, folder: Path, tables: _Tables, cases: Mapping[int, Case]
    ) -> dict[int, str]:
        """All cases in one query; if it fails, each in a query of its own."""
        shared = next(iter(cases.values()))
        source, checkpoint = folder / "stream", folder / "checkpoint"
        source.mkdir()
        results: dict[int, list[pa.Table]] = {}

        def keep(batch: DataFrame, number: int) -> None:
            results.setdefault(number, []).append(collected(batch))

        schema = frame(self.spark, shared.stream.arrow(0, 0)).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

        def started() -> tuple[Any, dict[int, DataFrame]]:
            stream = reader.parquet(str(source))
            joined = {n: self._joined(stream, tables, case) for n, case in cases.items()}
            writer = _united(joined, len(shared.stream.columns)).writeStream.foreachBatch(keep)
            return writer.option("checkpointLocation", str(checkpoint)).start(), joined

        query = None
        try:
            with ending(self.spark, _LONGEST_S):
                query, joined = started()
                for number, (start, stop) in enumerate(shared.batches()):
                    for event in [event for at, event in shared.events if at == number]:
                        query.processAllAvailable()
                        if event == "refresh":
                            tables.refresh(shared.version(number))
                            continue
                        query.stop()
                        if event == "replay":
                            forget_last_commit(checkpoint)
                        tables.reopen()
                        query, joined = started()
                    rows = shared.stream.arrow(start, stop)
                    columns = dict(zip(rows.column_names, rows.columns, strict=True))
                    write_stream_file(source, number, **columns)
                query.processAllAvailable()
        except Exception as error:
            if len(cases) == 1:
                return dict.fromkeys(cases, _told(error))
            alone = {}
            for number, case in cases.items():
                alone.update(self.failures({number: case}))
            return alone or dict.fromkeys(cases, f"only together: {_told(error)}")
        finally:
            if query is not None:
                query.stop()
        found = {}
        parts = {
            batch: [_parted(rows, joined, len(shared.stream.columns)) for rows in several]
            for batch, several in results.items()
        }
        for number, case in cases.items():
            own = {batch: [part[number] for part in several] for batch, several in parts.items()}
            wrong = _wrong_schema(joined[number], case) or _wrong_rows(own, case)
            if wrong:
                found[number] = wrong
        return found

    def _joined(self, stream: DataFrame, tables: _Tables, case: Case) -> DataFrame:
        with configured(self.spark, {_RUNTIME: case.joins[0].runtime}):
            stream = completed(stream, case.stream.columns)
        for number, join in enumerate(case.joins):
            if join.selects:
                stream = _selected(stream)
            with configured(self.spark, {_RUNTIME: join.runtime}):
                stream = tables.join(stream, join, suffix(number))
        return stream


class _Tables:
    """The tables of a round."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        tables: tuple[Table, ...],
        used: set[int],
        engine: Engine,
    ):
        self.spark = spark
        self.tables = tables
        self.built_with = engine.built_with
        self.applies = engine.applies
        self.version = 0
        self.built: dict[int, Any] = {}
        for number in sorted(used):
            self.built[number] = self._made(tables[number], folder / f"table{number}")

    def _made(self, table: Table, place: Path) -> Any:
        rows = table.rows(0)
        if table.cache == "stored":
            return BatchTable.build(
                self._frame(table, 0),
                on=list(table.keys),
                when=[table.when, *table.boxes] if table.boxes else table.when,
                path=place,
                unique=table.unique,
                latest_by=table.latest_by,
                keep=table.keep,
                nulls_equal=table.nulls_equal,
                **self.built_with,
            )
        if table.cache == "private":
            return self._frame(table, 0)
        if table.cache == "sqlite":
            return _database(place.with_suffix(".db"), table, rows)
        return bsjoin.sources.function(
            Lookup(rows.arrow()),
            rows.arrow().schema,
            unique=table.unique,
            max_keys=table.max_keys,
        )

    def refresh(self, version: int) -> None:
        """Publish versions of the stored tables up to this one, some by changes."""
        while self.version < version:
            self.version += 1
            for number, built in self.built.items():
                table = self.tables[number]
                if not isinstance(built, BatchTable) or self.version >= len(table.versions):
                    continue
                is_even = (number + self.version) % 2 == 0
                if not self.applies or not may_change(table) or is_even:
                    built.refresh(self._frame(table, self.version))
                    continue
                changes = changes_of(table, self.version).arrow()
                df = frame(self.spark, changes, [*table.nullable(), False]).coalesce(1)
                built.apply(completed(df, table.columns), key=(), op=_CHANGE)

    def _frame(self, table: Table, version: int) -> DataFrame:
        df = frame(self.spark, table.rows(version).arrow(), table.nullable()).coalesce(1)
        return completed(df, table.columns)

    def reopen(self) -> None:
        """Open the stored tables as a restarted application does."""
        for number, built in self.built.items():
            if isinstance(built, BatchTable):
                self.built[number] = BatchTable.open(built.path)

    def join(self, stream: DataFrame, join: Join, ending: str) -> DataFrame:
        """One join of a chain."""
        table, built = self.tables[join.table], self.built[join.table]
        arguments: dict[str, Any] = {
            "on": _on(join),
            "when": join.when,
            "how": join.how,
            "suffix": ending,
            "partition": _partition(join),
            "nulls_equal": [
                theirs if keys.is_expression(ours) else ours
                for ours, theirs in join.on
                if theirs in join.nulls_equal
            ],
        }
        if join.also:
            whens = [join.when, *join.also]
            # Of a source the first one is searched, which needs no certain one either.
            arguments["when"] = whens[:: -1 if table.cache == "stored" and join.selects else 1]
        if join.where is not None:
            number = int(ending.removeprefix("_"))
            arguments["where"] = where_text(join, stream.columns, number)
        if join.select is not None:
            arguments["select"] = list(join.select)
        if table.cache == "stored":
            return built.join(stream, **arguments)
        if table.cache == "private":
            full = Full(unique=table.unique, latest_by=table.latest_by, keep=table.keep)
            return bsjoin.join(stream, built, cache=full, **arguments)
        cache = Incremental(**dict(table.limits))
        return bsjoin.join(stream, built, cache=cache, **arguments)


def _selected(df: DataFrame) -> DataFrame:
    """The same rows and columns, behind several selections."""
    names = [f"x{i}" for i in range(len(df.columns))]
    renamed = df.toDF(*names).withColumn("more", F.lit(1)).select("more", *reversed(names))
    return renamed.drop("more").alias("a").select(*names).toDF(*df.columns)


def may_change(table: Table) -> bool:
    """Whether changes can be applied to a table."""
    kinds = dict(table.columns)
    is_collated = any(kinds[key].startswith(COLLATED) for key in table.keys)
    return table.cache == "stored" and not table.latest_by and not is_collated


def _on(join: Join) -> Any:
    """The argument: a dict, or pairs where a key is an expression."""
    if not any(keys.is_expression(ours) for ours, _ in join.on):
        return dict(join.on) or []
    return [
        (keys.column(ours) if keys.is_expression(ours) else ours, theirs)
        for ours, theirs in join.on
    ]


def _partition(join: Join) -> Hash | HotSpot | None:
    if join.partition is None:
        return None
    kind, partitions = join.partition
    return Hash(partitions) if kind == "hash" else HotSpot(partitions=partitions, sample=100)


def _database(place: Path, table: Table, rows: Rows) -> Any:
    """A table in SQLite."""
    declared = {
        "long": "BIGINT", "double": "REAL", "string": "TEXT", "binary": "BLOB",
        "boolean": "BOOLEAN", "date": "DATE",
    }  # fmt: skip
    names = ", ".join(f'"{name}" {declared[kind]}' for name, kind in rows.columns)
    epoch = dt.date(1970, 1, 1)

    def stored(kind: str, value: Any) -> Any:
        if kind == "date" and value is not None:
            return (epoch + dt.timedelta(days=value)).isoformat()
        return value

    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(f"CREATE TABLE t ({names})")
        marks = ", ".join("?" * len(rows.columns))
        connection.executemany(
            f"INSERT INTO t VALUES ({marks})",
            [
                [stored(kind, v) for (_, kind), v in zip(rows.columns, row, strict=True)]
                for row in rows.rows
            ],
        )
    return bsjoin.sources.sql(
        f"sqlite:///{place}", table="t", unique=table.unique, max_keys=table.max_keys
    )


def spark_schema(columns: Columns) -> T.StructType:
    """The Spark schema of some columns."""
    return T.StructType([T.StructField(name, _spark_type(kind)) for name, kind in columns])


def _spark_type(kind: str) -> T.DataType:
    if kind.startswith(COLLATED):
        return T.StringType(kind.removeprefix(COLLATED))
    if fields := fields_of(kind):
        return T.ArrayType(spark_schema(tuple(fields)), containsNull=False)
    return from_arrow_type(KINDS[kind].arrow, prefer_timestamp_ntz=True)


def completed(df: DataFrame, columns: Columns, networks: bool = True) -> DataFrame:
    """The rows with what Spark makes of some columns: texts with collations, ends of networks."""
    made = {}
    for name, kind in columns:
        if kind.startswith(COLLATED):
            made[name] = F.collate(name, kind.removeprefix(COLLATED))
        elif networks and (of := text_of(kind)) and of[1] in df.columns:
            tried = "null" if kind.startswith("try_") else "fail"
            made[name] = getattr(functions, of[0])(of[1], on_error=tried)
    return df.withColumns(made) if made else df


def _wrong_refusal(stream: DataFrame, rows: Rows) -> str | None:
    """What is wrong with the error that texts that are no networks end in, if there are any."""
    asked = [of for _, kind in rows.columns if kind.startswith("try_") and (of := text_of(kind))]
    for function, text in asked:
        values = [row[rows.names().index(text)] for row in rows.rows]
        refused = [value for value in values if value is not None and ends_of(value) is None]
        told: object = None
        try:
            stream.select(getattr(functions, function)(text)).collect()
        except Exception as error:
            told = cause_of(error)
        named = isinstance(told, DataError) and any(f"'{value}'" in str(told) for value in refused)
        if named != bool(refused):
            return f"{function} of {refused}: {told!r}"
    return None


def changes_of(table: Table, version: int) -> Rows:
    """All rows of the keys that a version has other rows of than the one before."""
    before, after = (_by_key(table, table.rows(one)) for one in (version - 1, version))
    rows = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, []), after.get(key, [])
        if repr(old) != repr(new):  # which tells zeros apart
            rows += [(*row, "u") for row in new] or [(*old[0], "d")]
    return Rows((*table.columns, (_CHANGE, "string")), tuple(rows))


def _by_key(table: Table, given: Rows) -> dict[Row, list[Row]]:
    """Rows by their key; without those with a key that matches nothing."""
    found: dict[Row, list[Row]] = {}
    places = [given.names().index(name) for name in table.keys]
    for row in given.rows:
        names = zip(table.keys, (row[place] for place in places), strict=True)
        if all(value is not None or name in table.nulls_equal for name, value in names):
            key = tuple(None if row[place] is None else equality(row[place]) for place in places)
            found.setdefault(key, []).append(row)
    return found


def frame(spark: SparkSession, rows: pa.Table, nullable: Sequence[bool] | None = None) -> DataFrame:
    """Rows as Spark has them: a time without a zone stays one."""
    nulls = [True] * rows.num_columns if nullable is None else nullable
    types = [from_arrow_type(field.type, prefer_timestamp_ntz=True) for field in rows.schema]
    schema = T.StructType(list(map(T.StructField, rows.column_names, types, nulls)))
    return spark.createDataFrame(rows, schema)


def _united(results: Mapping[int, DataFrame], carried: int) -> DataFrame:
    """The rows of several results, each with its number and with columns of its own at the end."""
    added = {n: [(f"c{n}_{i}", f) for i, f in enumerate(df.schema.fields[carried:])]
             for n, df in results.items()}  # fmt: skip
    tagged = []
    for number, df in results.items():
        names = [f"s{i}" for i in range(carried)] + [name for name, _ in added[number]]
        columns: list[Any] = [F.lit(number).alias("number"), *names[:carried]]
        for other, fields in added.items():
            for name, field in fields:
                nothing = F.lit(None).cast(field.dataType)
                columns.append(F.col(name) if other == number else nothing.alias(name))
        tagged.append(df.toDF(*names).select(*columns))
    return reduce(DataFrame.union, tagged)


def _parted(rows: pa.Table, results: Mapping[int, DataFrame], carried: int) -> dict[int, pa.Table]:
    """The rows of each result, from those of :func:`_united`."""
    found, start = {}, 1 + carried
    for number, df in results.items():
        stop = start + len(df.columns) - carried
        own = rows.filter(pc.equal(rows["number"], number))
        found[number] = own.select([*range(1, 1 + carried), *range(start, stop)])
        start = stop
    return found


def _wrong_schema(result: DataFrame, case: Case) -> str | None:
    found = [(field.name, field.dataType) for field in result.schema]
    wanted = [(f.name, f.dataType) for f in spark_schema(result_columns(case)[-1])]
    return None if found == wanted else f"columns {found}, expected {wanted}"


def _wrong_rows(results: dict[int, list[pa.Table]], case: Case) -> str | None:
    """What is wrong with the rows of the micro-batches."""
    columns = result_columns(case)[-1]
    answers = expected(case)
    if len(results) != len(answers):
        return f"micro-batches {sorted(results)}, expected {len(answers)}"
    for batch, wanted in answers:
        for rows in results[batch]:
            found = list(zip(*map(cells, rows.columns), strict=True))
            wrong = difference(found, wanted, columns)
            if wrong:
                return f"micro-batch {batch}: {wrong}"
    return None


def _told(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text[:1500]}"
