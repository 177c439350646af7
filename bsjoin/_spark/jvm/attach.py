"""The jar of the look-up functions: where it is, and how it gets into a running session.

The wheel has the jar as package data. Where it is not on Spark's class path (``spark.jars``), it is
attached: in classic sessions by Spark's ``addJar`` for the executors and the driver's class loader
for the driver, under Spark Connect as an artifact of the session.
"""

from __future__ import annotations

import logging
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bsjoin._spark.session import is_connect

__all__ = ["CATALOG", "attach", "jar"]

CATALOG = "bsjoin"
_CLASS = "bsjoin.jvm.Functions"
_SETTING = f"spark.sql.catalog.{CATALOG}"

_log = logging.getLogger("bsjoin")


def jar() -> str:
    """The path of the jar, for ``spark.jars``."""
    return str(Path(__file__).with_name("bsjoin-jvm.jar"))


def attach(spark: SparkSession) -> str | None:
    """Let a session find the functions; why that is impossible, None if it is done."""
    if spark.conf.get(_SETTING, "") == _CLASS:
        return None
    if not Path(jar()).exists():
        return f"there is no {jar()}"
    try:
        if is_connect(spark):
            spark.addArtifact(jar())  # type: ignore[attr-defined]
        else:
            _attach_classic(spark)
        spark.conf.set(_SETTING, _CLASS)
    except (PySparkException, Py4JError) as error:
        return f"the jar cannot be attached to this session: {str(error).splitlines()[0]}"
    return None


def _attach_classic(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_CLASS, False, loader)
        return  # by spark.jars, or attached before
    except Py4JError:
        pass
    spark.sql(f"ADD JAR '{jar()}'")
