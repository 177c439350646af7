"""The sources and operators of a Spark Connect DataFrame, as the client sends them.

The client has a plan of names, which the server resolves. So less is known than in a classic
session: plain reads of files, through columns and comparisons, and rows that were given. Text in
SQL and names of tables may stand for anything.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bsjoin.spark import compat
from bsjoin.spark.leaves import state_of_files

_FILES = {"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"}
_RECOGNISED = {"orc", "parquet"}
_RELATIONS = {"filter", "project", "subquery_alias"}
_GIVEN = {"local_relation", "range"}
_FUNCTIONS = {
    "!", "%", "*", "+", "-", "/", "<", "<=", "<=>", "=", "==", ">", ">=", "and", "in", "isnotnull",
    "isnull", "not", "or",
}  # fmt: skip
_EXPRESSIONS = {"alias", "cast", "literal", "unresolved_attribute", "unresolved_function"}
_TIMES = {
    "curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now",
}  # fmt: skip
_PINNED = {"versionasof", "timestampasof", "snapshot-id", "as-of-timestamp", "tag"}


def renew(df: DataFrame) -> None:
    """Let catalogues forget the tables that the plan names, unless the user has cached them.

    A server resolves a plan, and lists files, for every action anyway.
    """
    catalog = df.sparkSession.catalog
    for name in _named(df):
        try:
            if not catalog.isCached(name):
                catalog.refreshTable(name)
        except PySparkException:  # it is gone: reading it says so
            continue


def parts(df: DataFrame) -> list[Any] | None:
    """Return what the client sends, without its marks, and the states of files; None if unknown."""
    messages = _messages(df)
    reads = [message.read for message in messages if _kind(message) == "read"]
    if not all(map(_is_certain, messages)) or not reads or _is_cached(df):
        return None
    if not _is_here(df.sparkSession):
        return None
    files = state_of_files(df.inputFiles())
    return files and [_without_marks(compat.serialized(df)), files]


def is_fixed(df: DataFrame) -> bool:
    """Whether the plan itself has the rows."""
    messages = _messages(df)
    return all(_is_certain(message) and _kind(message) != "read" for message in messages)


def read_anew(df: DataFrame) -> list[str]:
    """Name what Spark's own join would read anew in each micro-batch, for a message."""
    catalog, found = df.sparkSession.catalog, []
    for message in _messages(df):
        kind = _kind(message)
        if kind == "unresolved_function" and _function(message) in _TIMES:
            found.append("the current time")
        if kind != "read" or message.read.WhichOneof("read_type") != "data_source":
            continue
        source = message.read.data_source
        if source.format.lower() not in _FILES and not _PINNED & {
            k.lower() for k in source.options
        }:
            found.append(f"the source {source.format!r}")
    for name in _named(df):
        try:
            if not catalog.getTable(name).isTemporary:
                found.append(f"the table {name}")
        except PySparkException:
            continue
    return [] if not found or _is_cached(df) else list(dict.fromkeys(found))


def _is_here(spark: SparkSession) -> bool:
    """Whether the server runs on this machine: a client elsewhere may have other files there."""
    host = spark.conf.get("spark.driver.host", "")
    with contextlib.suppress(OSError), socket.create_server((host, 0)):
        return bool(host)
    return False


def _named(df: DataFrame) -> list[str]:
    reads = [message.read for message in _messages(df) if _kind(message) == "read"]
    return [
        read.named_table.unparsed_identifier
        for read in reads
        if read.WhichOneof("read_type") == "named_table"
    ]


def _messages(df: DataFrame) -> list[Any]:
    """The relations and expressions of the plan."""
    return [found for found in _within(compat.serialized(df)) if _kind(found) is not None]


def _within(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            yield from _within(part)


def _kind(message: Any) -> str | None:
    """Return the relation, or the expression, that a message is."""
    name = {"Relation": "rel_type", "Expression": "expr_type"}.get(message.DESCRIPTOR.name)
    return None if name is None else (message.WhichOneof(name) or "unknown")


def _is_certain(message: Any) -> bool:
    kind = _kind(message)
    if kind == "read":
        read = message.read
        is_files = read.WhichOneof("read_type") == "data_source" and not read.is_streaming
        return is_files and read.data_source.format.lower() in _RECOGNISED
    if kind == "unresolved_function":
        return _function(message) in _FUNCTIONS
    return kind in _RELATIONS | _GIVEN | _EXPRESSIONS


def _function(message: Any) -> str:
    return str(message.unresolved_function.function_name).lower()


def _without_marks(plan: Any) -> str:
    """The plan as text, without the numbers and places in the code that differ from run to run."""
    for message in list(_within(plan)):
        if any(field.name == "common" for field in message.DESCRIPTOR.fields):
            message.ClearField("common")
        for field in message.DESCRIPTOR.fields:
            if field.name == "plan_id":
                message.ClearField("plan_id")
    return str(plan)


def _is_cached(df: DataFrame) -> bool:
    # The server tells of its cached rows in a text only, which may say so of others by mistake.
    return "InMemoryRelation" in compat.explained(df)
