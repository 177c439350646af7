"""From a checked call to a Spark plan: key expressions, answer types, names, versions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import LookupPlan
from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import Names, quoted
from bsjoin._spark.keys import check_key_types, stream_key, type_of
from bsjoin._spark.lookup import look_up, shape_of
from bsjoin._spark.observing import current_cycle, is_reported
from bsjoin._spark.session import is_case_sensitive
from bsjoin.errors import NotATableError
from bsjoin.store import Manifest, StorageLocation

__all__ = [
    "Request",
    "answer_row",
    "check_types",
    "names_of",
    "next_label",
    "plan_join",
    "schema_of",
]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Request:
    """A join, checked and resolved.

    Args:
        keys: pairs of key columns, the stream's and the table's.
        how: the join type.
        columns: the table's columns to bring.
        names: what these are called in the result.
        label: unique name of the join in this application.
        partitioned: how the stream's rows were sent to partitions: "none", "hash", "hotspot".
    """

    keys: tuple[tuple[str, str], ...]
    how: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    label: str
    partitioned: str


def names_of(df: DataFrame, side: str) -> Names:
    """The column names of a DataFrame."""
    return Names(df.columns, side, is_case_sensitive(df.sparkSession))


def check_types(stream: DataFrame, pairs: Sequence[tuple[str, str]], table: T.StructType) -> None:
    """Refuse key types that do not compare exactly."""
    check_key_types(
        [(name, stream.schema[name].dataType) for name, _ in pairs],
        [(name, table[name].dataType) for _, name in pairs],
    )


def schema_of(manifest: Manifest) -> T.StructType:
    """The Spark schema of the columns that can be selected.

    Raises:
        NotATableError: this version of Spark does not know a type that another one has stored.
    """
    try:
        # Nothing else comes here than what the store has read strictly before.
        return T.StructType.fromJson(json.loads(manifest.spark_schema))
    except (AssertionError, KeyError, PySparkException, ValueError) as error:
        raise NotATableError(
            f"version {manifest.version} of the table has a type that this version of Spark does "
            f"not know: {error}. Use the version that it was built with, or build it again"
        ) from error


def next_label(keys: Sequence[str]) -> str:
    """A name for one more join of this application: its number and the stream's keys.

    The keys are JSON, in ASCII: a name may hold anything, and Spark carries the label.
    """
    cycle = current_cycle()
    if cycle is not None and "label" in cycle.kept:
        return str(cycle.kept["label"])
    label = f"{next(_numbers)}:{json.dumps(list(keys))}"
    if cycle is not None:
        cycle.kept["label"] = label
    return label


def answer_row(fields: Sequence[T.StructField]) -> T.StructType:
    """The struct in which one row of the table travels: its fields, under short names."""
    return T.StructType(
        [T.StructField(f"c{i}", f.dataType, f.nullable) for i, f in enumerate(fields)]
        or [T.StructField("none", T.BooleanType())]
    )


def plan_join(
    stream: DataFrame,
    location: StorageLocation,
    manifest: Manifest,
    request: Request,
    *,
    may_change: bool,
) -> DataFrame:
    """Build the plan that joins a stream with a stored table.

    Args:
        stream: the probe side.
        location: where the table lives.
        manifest: its newest version.
        request: what is asked for.
        may_change: whether other versions of the table may come while the plan is in use.
    """
    by_table = {table: stream_name for stream_name, table in request.keys}
    table_types = [type_of(key.type) for key in manifest.keys]
    stream_names = [by_table[key.name] for key in manifest.keys]
    key = stream_key(
        [stream[quoted(name)] for name in stream_names],
        [stream.schema[name].dataType for name in stream_names],
        table_types,
    )
    # A streaming plan lives on while the table changes; a batch result is bound to a version.
    bound = not stream.isStreaming
    unique = manifest.unique or (manifest.longest_run <= 1 and (bound or not may_change))
    stored = schema_of(manifest)
    fields = [stored[name] for name in request.columns]
    if may_change and not bound:
        # A version that comes later may bring nulls.
        fields = [T.StructField(f.name, f.dataType, True, f.metadata) for f in fields]
    shape = shape_of(request.how, request.columns, unique, manifest.longest_run)
    row = answer_row(fields)
    plan = LookupPlan(
        label=request.label,
        partitioned=request.partitioned,
        location=location,
        epoch=manifest.created_at_us,
        version=manifest.version if bound else None,
        columns=request.columns,
        shape=shape,
        row_type=pa.struct(arrow_fields(row)),
        reports=is_reported(stream),
    )
    named = [(name, field.metadata) for name, field in zip(request.names, fields, strict=True)]
    return look_up(stream, key, plan, row, request.how, named)
