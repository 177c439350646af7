"""Counts of the joins that the JVM has run: kept in Spark's driver, see ``Figures.java``.

In a classic session that is a call; under Spark Connect it is a query, of which the optimizer makes
a constant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bsjoin.metrics.join_metrics import OperatorMetrics
from bsjoin.metrics.lines import read
from bsjoin.spark import compat
from bsjoin.spark.remote import is_remote

_CATALOG = "spark.sql.catalog.bsjoin"


def counted(
    run: str, first: int, last: int, spark: SparkSession | None = None
) -> list[OperatorMetrics]:
    """The joins that were executed in micro-batches, in this order; none where none can be known.

    ``run`` is Spark's id of the run of a query, or what stands for it.
    """
    text = _text_of_classic(run, first, last)
    if text is None:
        text = _text_of_query(run, first, last, spark)
    return [one for line in read(OperatorMetrics, text) for one in line]


def _text_of_classic(run: str, first: int, last: int) -> str | None:
    """None where Python cannot call the classes of the jar."""
    try:
        figures = compat.java_class("bsjoin.jvm.lookup.Figures")
        return None if figures is None else str(figures.read(run, first, last))
    except compat.failures():  # the application has ended
        return None


def _text_of_query(run: str, first: int, last: int, spark: SparkSession | None) -> str | None:
    try:
        spark = SparkSession.active() if spark is None else spark
        if not spark.conf.get(_CATALOG, ""):
            return None  # no join can have been planned
        query = "SELECT bsjoin.figures(:run, :first, :last)"
        row = spark.sql(query, {"run": run, "first": first, "last": last}).first()
    except PySparkException:
        return None
    return None if row is None else str(row[0])


@contextlib.contextmanager
def tagged(spark: SparkSession, run: str, batch: int) -> Iterator[None]:
    """Count the joins of this thread for a micro-batch, where Spark does not say which it is.

    What stands for the run of a query has hexadecimal digits and hyphens.
    """
    tag = f"bsjoin-batch-{run}_{batch}"
    if is_remote():
        add, remove = spark.addTag, spark.removeTag
    else:  # those of the context hold outside of Spark's executions, too
        add, remove = spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag
    add(tag)
    try:
        yield
    finally:
        remove(tag)
