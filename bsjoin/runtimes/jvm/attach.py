"""Lets a session call the functions of the jar.

In a classic session the driver's class loader gets the jar, for all its sessions and threads, and
Spark sends it to the executors, to those that join later, too. Under Spark Connect it is an
artifact of the session. Where it is on ``spark.jars``, nothing is to do but to name the catalog.
"""

from __future__ import annotations

import json
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from bsjoin.runtimes.jvm.jar import JarError, build_of_sources, compiled
from bsjoin.spark import compat
from bsjoin.spark.session import application_of, is_connect
from bsjoin.spark.sql import quoted

_CATALOG = "bsjoin"
_CLASS = "bsjoin.jvm.Functions"
_SETTING = f"spark.sql.catalog.{_CATALOG}"
_CHECKED = "spark.bsjoin.jvm.build"  # a session inherits it together with the catalog
_PLANNER = "spark.bsjoin.jvm.planner"

_refused: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def call(what: str, *arguments: str, **more: Any) -> str:
    """A call of one of the functions, see :func:`function`, with its arguments, in SQL."""
    return f"{function(what, **more)}({', '.join(arguments)})"


def function(what: str, **more: Any) -> str:
    """The name of a function of a kind, see ``Functions.java``; more that it needs is in it."""
    build = build_of_sources()
    name = json.dumps({"what": what, "build": build, **more}, separators=(",", ":"))
    name = name.replace("$", r"\u0024")  # Spark would make values of variables of ${...}
    return f"{_CATALOG}.{quoted(name)}"


def attached(spark: SparkSession) -> str | None:
    """Let a session call the functions; why that is impossible, None if it is done."""
    if is_attached(spark):
        return None
    catalog = spark.conf.get(_SETTING, _CLASS)
    if catalog != _CLASS:  # of this session alone
        return f"{_SETTING} is {catalog}, and bsjoin needs a catalog of that name"
    application = application_of(spark)
    if application not in _refused:
        try:
            _attach(spark)
        except JarError as error:
            _refused[application] = str(error)
        except compat.failures() as error:
            _refused[application] = f"the session refuses the jar: {_first_line(error)}"
        else:
            return None
    return _refused[application]


def is_attached(spark: SparkSession) -> bool:
    """Whether a session can call the functions already."""
    return spark.conf.get(_CHECKED, "") == build_of_sources()


def lacks_planner(spark: SparkSession) -> str | None:
    """Why joins are not planned in a session that has the functions; None if they are.

    Its Spark may lack what the planner in the jar needs: another version, or distribution.
    """
    if spark.conf.get(_PLANNER, "") != build_of_sources():
        try:
            spark.range(0).selectExpr(call("planner")).schema  # noqa: B018
        except compat.failures() as error:
            return _first_line(error)
        spark.conf.set(_PLANNER, str(build_of_sources()))
    return None


def _attach(spark: SparkSession) -> None:
    path = compiled()
    if is_connect(spark):
        spark.addArtifact(str(path))
    elif not compat.attach_jar(spark, path, _CLASS):
        # It would not reach the code that other threads generate.
        spark.sql(f"ADD JAR '{path.as_uri()}'")
    spark.conf.set(_SETTING, _CLASS)
    # Calls what the jar has: another build of it, attached before, refuses.
    spark.range(0).selectExpr(call("build")).schema  # noqa: B018
    spark.conf.set(_CHECKED, build_of_sources())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
