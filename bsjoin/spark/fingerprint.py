"""Recognising a source that has not changed, so that it need not be read again.

A DataFrame is identified by what it reads and by what it does with that: the identifier and version
of each table that has them, the names, sizes and times of plain files, and the operators above. If
any part is not known for certain, there is no fingerprint, and the source is read again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from bsjoin.errors import SourceError
from bsjoin.spark import compat, connect_plan
from bsjoin.spark.leaves import Leaf, is_cached, leaves_of
from bsjoin.spark.operators import asks_for_the_time, operators_of
from bsjoin.spark.session import is_connect, settings_of
from bsjoin.spark.source_versions import version_in
from bsjoin.storage.source_version import SourceVersion

_log = logging.getLogger("bsjoin")

# What says how files are read, and what expressions do.
_SETTINGS = (
    "spark.sql.ansi.",
    "spark.sql.caseSensitive",
    "spark.sql.files.ignore",
    "spark.sql.legacy.",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.datetimeRebaseMode",
    "spark.sql.parquet.fieldId.read",
    "spark.sql.parquet.inferTimestampNTZ",
    "spark.sql.parquet.int96",
)


def renew(df: DataFrame) -> bool:
    """Let the next read of a DataFrame see what was written since it was made, by anyone.

    Lists of files are made anew, and catalogues forget the tables. What the user has cached stays.

    Returns:
        Whether it will: not where Spark lacks the private members that this needs.
    """
    try:
        if is_connect(df.sparkSession):
            connect_plan.renew(df)
            return True
        leaves = leaves_of(df)
    except compat.MissingMemberError as error:
        _log.debug("bsjoin: what a DataFrame reads is not listed anew: %s", error)
        return False
    for leaf in leaves:
        leaf.renew()
    return True


class Identity(NamedTuple):
    """What identifies the rows of a DataFrame.

    Args:
        fingerprint: DataFrames with the same have the same rows, in any application; None where
            nothing is known for certain.
        version: the version of what it reads; None where that has none, or is not known.
    """

    fingerprint: str | None
    version: SourceVersion | None = None


def identity(df: DataFrame) -> Identity:
    """Return the fingerprint of a DataFrame, and the version of its source, as of one moment."""
    renew(df)
    version = None
    try:
        leaves = [] if is_connect(df.sparkSession) else leaves_of(df)
        parts = _parts(df, leaves) if leaves else connect_plan.parts(df)
        if parts is None:
            return Identity(None)
        around = _around(df)
        if leaves and (selected := _selected(around, parts[0], leaves)) is not None:
            version = version_in(leaves, parts[1], selected)
    except compat.failures():  # a table that is gone, a private member of another version
        return Identity(None)
    except SourceError:
        return Identity(None)
    content = json.dumps([*around, parts])
    return Identity("read:" + hashlib.sha256(content.encode()).hexdigest(), version)


def selection_of(df: DataFrame) -> str | None:
    """A digest of what a classic DataFrame reads, in any version, and of what it does with that.

    The rows of what has no versions are a part of it.

    Returns:
        None where that is not known for certain: as of rows that were given.
    """
    operators = operators_of(df)
    return None if operators is None else _selected(_around(df), operators, leaves_of(df))


def _selected(around: list[Any], operators: Any, leaves: Sequence[Leaf]) -> str | None:
    read = [leaf.reads() for leaf in leaves]
    return None if None in read else _digest([*around, [operators, read]])


def _around(df: DataFrame) -> list[Any]:
    """What the rows of a DataFrame are a matter of besides its plan."""
    settings = settings_of(df.sparkSession)
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")  # casts depend on it
    chosen = sorted((k, v) for k, v in settings.items() if k.startswith(_SETTINGS))
    return [df.schema.json(), zone, chosen]


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _parts(df: DataFrame, leaves: Sequence[Leaf]) -> list[Any] | None:
    """The operators of a classic DataFrame, and the states of what it reads."""
    operators = operators_of(df)
    if operators is None or is_cached(df):
        return None
    states = [leaf.state() for leaf in leaves]
    return None if None in states else [operators, states]


def is_fixed(df: DataFrame) -> bool:
    """Whether the plan alone says what the rows are, for certain: it reads nothing.

    Ranges and rows that were given, through arithmetic, comparisons and casts. The rows that were
    given are not compared here; ``sameSemantics`` does that.
    """
    try:
        if is_connect(df.sparkSession):
            return connect_plan.is_fixed(df)
        return operators_of(df) is not None and all(leaf.is_given for leaf in leaves_of(df))
    except compat.failures():
        return False


def read_anew(df: DataFrame) -> list[str]:
    """Name what Spark's own join of a stream with a DataFrame would read anew in each micro-batch.

    Returns:
        What is read, in words for a message; nothing where the rows stay, or cannot be known to
        change.
    """
    try:
        if is_connect(df.sparkSession):
            return connect_plan.read_anew(df)
        if is_cached(df):
            return []
        found = [leaf.name for leaf in leaves_of(df) if leaf.is_read_anew]
        if asks_for_the_time(df):
            found.append("the current time")
    except compat.MissingMemberError as error:
        _log.debug("bsjoin: what a DataFrame reads is not known: %s", error)
        return []
    return list(dict.fromkeys(found))
