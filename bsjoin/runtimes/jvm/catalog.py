"""Stored tables in Spark's catalog, for plain joins and SQL; see ``StoredTables.java``."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession

from bsjoin.errors import ArgumentError, StoreError, WorkerEnvironmentError
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.spark.session import too_old
from bsjoin.spark.workers import check_workers
from bsjoin.storage import StorageLocation

_SETTING, _STALENESS = "spark.bsjoin.table.", "spark.bsjoin.maxStalenessUs."
_NAME = re.compile(r"\w+")


def name_table(
    spark: SparkSession, location: StorageLocation, name: str, max_staleness_us: int
) -> None:
    """Let a table be ``bsjoin.<name>`` in a session, its rows as old as that; 0: of any age."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"name={name!r}: give a name of letters, digits and underscores, for bsjoin.name in SQL"
        )
    _check(spark, location)
    spark.conf.set(f"{_STALENESS}{name}", str(max_staleness_us))  # 0 too: it may have been another
    spark.conf.set(f"{_SETTING}{name}", location.url)


def relation(
    spark: SparkSession, location: StorageLocation, max_staleness_us: int = 0
) -> DataFrame:
    """A table as a DataFrame that is read in Spark's JVM."""
    _check(spark, location)
    reader = spark.read.format("bsjoin")
    if max_staleness_us:
        reader = reader.option("maxStalenessUs", str(max_staleness_us))
    return reader.load(location.url)


def _check(spark: SparkSession, location: StorageLocation) -> None:
    if str(location) != location.url:
        raise StoreError(
            f"{str(location)!r}: the URL has a secret, which settings and plans of Spark would "
            "show: give it to fsspec through the environment or its configuration file"
        )
    against = too_old(spark.version) or attached(spark)
    if against is not None:
        raise WorkerEnvironmentError(
            f"the table in {str(location)!r} cannot be read in Spark's JVM: {against}. Start the "
            "application with spark.jars=bsjoin.jar()"
        )
    if not location.is_local:
        check_workers(spark)
