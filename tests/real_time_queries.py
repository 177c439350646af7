"""Queries under the real-time trigger, and batch queries that are planned as theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

SHORT_BATCHES = {"spark.sql.streaming.realTimeMode.minBatchDuration": "1000"}
"""Spark refuses real-time batches below five seconds otherwise."""
_QUERY_ID = "sql.streaming.queryId"


class Source:
    """The only source in Spark's own jars that real-time mode admits."""

    def __init__(self, spark: SparkSession):
        jvm: Any = spark._jvm
        sources = jvm.org.apache.spark.sql.execution.streaming.sources
        encoder = jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = sources.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, encoder)
        self._sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self.texts = DataFrame(self._stream.toDF(), spark)
        self.rows = self.texts.selectExpr("bigint(value) AS k")

    def add(self, *values: object) -> None:
        self._stream.addData(self._sequence([str(value) for value in values]))


def started(df: DataFrame, folder: Path) -> StreamingQuery:
    """Start a query; it appends its rows, as JSON, to the file ``rows`` of a folder."""
    out = folder / "rows"

    def write(row: Any) -> None:
        with out.open("a") as file:
            file.write(json.dumps(list(row)) + "\n")

    writer = df.writeStream.foreach(write).outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(realTime="5 seconds").start()


@contextmanager
def planned_in_real_time(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Plan the batch queries of this thread as those of a query in real-time mode, which idles."""
    query = started(Source(spark).rows, folder)
    try:
        spark.sparkContext.setLocalProperty(_QUERY_ID, query.id)
        yield
    finally:
        spark.sparkContext.setLocalProperty(_QUERY_ID, None)  # type: ignore[arg-type]
        query.stop()


@contextmanager
def warned(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """What the logger ``bsjoin`` of the JVM says meanwhile."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    text = jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(
        None, None, text, "checks", False, True
    )
    appender.start()
    log4j.core.config.Configurator.setLevel("bsjoin", log4j.Level.WARN)
    logger = log4j.LogManager.getLogger("bsjoin")
    logger.addAppender(appender)
    try:
        yield text.toString
    finally:
        logger.removeAppender(appender)
        log4j.core.config.Configurator.setLevel("bsjoin", log4j.Level.OFF)
