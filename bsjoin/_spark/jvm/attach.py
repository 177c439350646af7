"""Lets a session call the functions of the jar.

In a classic session the driver's class loader gets the jar, for all its sessions and threads, and
Spark sends it to the executors, to those that join later, too. Under Spark Connect it is an
artifact of the session. Where it is on ``spark.jars``, nothing is to do but to name the catalog.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._spark.jvm.jar import JarError, build_of_sources, compiled
from bsjoin._spark.session import is_connect

__all__ = ["attached", "call"]

_CATALOG = "bsjoin"
_CLASS = "bsjoin.jvm.Functions"
_SETTING = f"spark.sql.catalog.{_CATALOG}"

_refused: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def call(what: str, *arguments: Column, **more: Any) -> Column:
    """One of the functions, as a column.

    Args:
        what: its kind; see ``Functions.java``.
        arguments: its arguments.
        more: what else it needs to know; part of its name.
    """
    build = build_of_sources()
    name = json.dumps({"what": what, "build": build, **more}, separators=(",", ":"))
    return F.call_function(f"{_CATALOG}.`{name.replace('`', '``')}`", *arguments)


def attached(spark: SparkSession) -> str | None:
    """Let a session call the functions, if it cannot yet.

    Returns:
        Why that is impossible; None if it is done.
    """
    if spark.conf.get(_SETTING, "") == _CLASS:
        return None
    if spark not in _refused:
        try:
            _attach(spark)
        except JarError as error:
            _refused[spark] = str(error)
        except (PySparkException, Py4JError) as error:
            _refused[spark] = f"the session refuses the jar: {_first_line(error)}"
        else:
            return None
    return _refused[spark]


def _attach(spark: SparkSession) -> None:
    if is_connect(spark):
        spark.addArtifact(str(compiled()))
    else:
        _attach_classic(spark)
    before = spark.conf.get(_SETTING, None)
    spark.conf.set(_SETTING, _CLASS)
    try:
        # Calls what the jar has: another build of it, attached before, refuses.
        spark.range(0).select(call("build")).schema  # noqa: B018
    except PySparkException:
        spark.conf.unset(_SETTING) if before is None else spark.conf.set(_SETTING, before)
        raise


def _attach_classic(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_CLASS, False, loader)
        return  # by spark.jars, or attached before
    except Py4JError:
        path = str(compiled())
    if loader.getClass().getSimpleName() == "MutableURLClassLoader":
        # `ADD JAR` alone would not reach the code that other threads generate.
        loader.addURL(jvm.java.io.File(path).toURI().toURL())
        spark.sparkContext._jsc.addJar(path)
    else:
        spark.sql(f"ADD JAR '{Path(path).as_uri()}'")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
