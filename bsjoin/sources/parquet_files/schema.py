"""The columns and types of a Parquet table, as Spark's reader finds them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.errors import SourceError
from bsjoin.sources.parquet_files.columns import (
    Rules,
    columns_of,
    declared_by_spark,
    has_numbers,
)
from bsjoin.sources.parquet_files.file import FORMAT, ParquetFile
from bsjoin.sources.parquet_files.listing import Listing
from bsjoin.sources.parquet_files.partition_values import Partitioning
from bsjoin.sources.table import Declared

_PARQUET = "spark.sql.parquet."
_REBASE = {
    "legacy_datetime": f"{_PARQUET}datetimeRebaseModeInRead",
    "legacy_int96": f"{_PARQUET}int96RebaseModeInRead",
}
_TIMES = "spark.sql.legacy.timeParserPolicy"
_BY_NUMBER = f"{_PARQUET}fieldId.read.enabled"
# Settings that are not followed here, with their defaults.
_NOT_FOLLOWED = {
    f"{_PARQUET}int96AsTimestamp": "true",
    f"{_PARQUET}int96TimestampConversion": "false",
    f"{_PARQUET}respectSummaryFiles": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}


def rules_of(what: str) -> Rules:
    """Read the rules from the active session's settings; Spark's defaults without a session."""
    if "pyspark.sql" not in sys.modules:
        return Rules()
    # Imported only on the driver.
    from bsjoin.spark.reader_settings import reader_settings

    settings = reader_settings()
    return Rules() if settings is None else _rules(settings, what)


def _rules(settings: Mapping[str, str], what: str) -> Rules:
    for name, default in _NOT_FOLLOWED.items():
        value = settings.get(name, default)
        if value.lower() != default.lower():
            raise SourceError(
                f"{what}: {name} is {value}, which only Spark's own reader follows: unset it, or "
                "join with spark.read.parquet(...) instead of this source"
            )
    legacy = {}
    for argument, name in _REBASE.items():
        older = name.replace(".sql.", ".sql.legacy.")  # which Spark takes, too
        mode = settings.get(name, settings.get(older, "CORRECTED")).upper()
        if mode == "EXCEPTION":
            raise SourceError(f"{what}: {name} is EXCEPTION: set it to CORRECTED or LEGACY")
        legacy[argument] = mode == "LEGACY"

    def flag(name: str, default: bool) -> bool:
        return settings.get(name, str(default)).lower() == "true"

    infers = flag("spark.sql.sources.partitionColumnTypeInference.enabled", True)
    return Rules(
        case_sensitive=flag("spark.sql.caseSensitive", False),
        time_zone=settings.get("spark.sql.session.timeZone", "UTC"),
        binary_as_string=flag(f"{_PARQUET}binaryAsString", False),
        infer_ntz=flag(f"{_PARQUET}inferTimestampNTZ.enabled", True),
        infer_partitions=infers,
        legacy_times=infers and settings.get(_TIMES, "").upper() == "LEGACY",
        merge=flag(f"{_PARQUET}mergeSchema", False),
        by_number=flag(_BY_NUMBER, False),
        **legacy,
    )


def declared_columns(
    files: Sequence[ParquetFile],
    listing: Listing,
    partitioning: Partitioning,
    filesystem: Any,
    rules: Rules,
    what: str,
) -> list[Declared]:
    """The names and types of a table: those of its first file, and the partition columns."""
    known = {file.found.path: file for file in files}
    candidates = [
        found
        for found in (*listing.summaries, *listing.data)
        if (partitioning.names or not found.folder) and found.size != 0
    ]
    columns: dict[str, Declared] = {}
    for found in candidates if rules.merge else candidates[:1]:
        file = known.get(found.path) or FORMAT.make_fragment(found.path, filesystem)
        footer = file.metadata
        if rules.by_number and has_numbers(footer):  # Delta's jars set it in their session
            raise SourceError(
                f"{what}: {_BY_NUMBER} is true, and the file {found.relative!r} has columns with "
                "numbers, by which only Spark's own reader finds them: unset it, or join with "
                "spark.read.parquet(...) instead of this source"
            )
        declared = declared_by_spark(footer) or [
            (column.name, column.type, column.declared) for column in columns_of(footer, rules)
        ]
        _refuse_alike([name for name, _, _ in declared], rules, what)
        for name, dtype, words in declared:
            same = columns.setdefault(rules.key(name), (name, dtype, words))
            if same[1] != dtype:
                raise SourceError(
                    f"{what}: the files have the column {name!r} with the types {same[2]} and "
                    f"{words}, which Spark does not merge: set spark.sql.parquet.mergeSchema to "
                    "false"
                )
    for place, (name, dtype) in enumerate(zip(partitioning.names, partitioning.types, strict=True)):
        words = "a partition without values of a known type"
        is_legacy = rules.legacy_times and dtype != pa.date32()
        raw = (row[place] for row in partitioning.raw.values())
        if is_legacy and any(re.match(r"\d+-\d+-\d", value) for value in raw):
            dtype, words = None, f"dates, which Spark reads by {_TIMES} = LEGACY"
        columns[rules.key(name)] = (name, dtype, words)
    return list(columns.values())


def _refuse_alike(names: Sequence[str], rules: Rules, what: str) -> None:
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(rules.key(name), name)
        if other != name:
            raise SourceError(
                f"{what}: the columns {other!r} and {name!r} differ in case only: write them with "
                "other names, or set spark.sql.caseSensitive to true"
            )
