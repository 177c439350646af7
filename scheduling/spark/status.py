"""Metrics of executors, stages and tasks, as the JSON of Spark's REST API.

The same JSON is made of the driver's own status store, so the web UI need not be on.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from scheduling.spark.internals import StatusStore

__all__ = ["StatusStore", "is_connect", "status_of"]


def is_connect(spark: object) -> bool:
    """Whether a session, or a query of one, is Spark Connect's: no driver is in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def status_of(spark: SparkSession) -> StatusStore:
    """The metrics of a classic session's application."""
    return StatusStore(spark)
