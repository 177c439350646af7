"""The choice of a runtime: Spark's generated code (``jvm``), or its Python workers (``python``).

``spark.bsjoin.runtime`` is a setting of the session, read by every call: ``auto`` (default) takes
the JVM wherever it can, ``python`` never, and ``jvm`` fails where the session refuses the jar. What
the JVM does not do at all (its ``why_not``) is done in Python even then,
but under ``jvm-only`` it is an error: for real-time mode, which takes no Python function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession

from bsjoin.errors import ArgumentError, WorkerEnvironmentError, suggest
from bsjoin.runtimes import jvm
from bsjoin.runtimes.base import Runtime
from bsjoin.runtimes.python import driver
from bsjoin.spark.session import application_of, too_old

SETTING = "spark.bsjoin.runtime"
_CHOICES = ("auto", "jvm", "jvm-only", "python")

_log = logging.getLogger("bsjoin")
_warned: WeakSet[Any] = WeakSet()


def choose(
    spark: SparkSession, why_not: Callable[[Runtime], str | None]
) -> tuple[Runtime, str, str]:
    """Choose what runs a join, or sends rows to partitions, unless something says why it cannot.

    Returns:
        The runtime; why it is not the JVM, empty for the JVM; and the setting that asks for the JVM
        where Python runs it, else empty.
    """
    wanted = str(spark.conf.get(SETTING, "auto")).strip().lower()
    if wanted not in _CHOICES:
        raise ArgumentError(f"{SETTING}={wanted!r} is not known. {suggest(wanted, _CHOICES)}")
    if wanted == "python":
        return driver, f"{SETTING} is python", ""
    asked = f"{SETTING}={wanted}" if wanted in ("jvm", "jvm-only") else ""
    if asked and (against := too_old(spark.version)):
        raise WorkerEnvironmentError(
            f"{asked}: {against} in this session (under Connect: on its server)"
        )
    against = why_not(jvm)
    if against is not None and wanted == "jvm-only":
        raise ArgumentError(
            f"{asked}: the JVM cannot run this, because {against}. Change that, or set {SETTING} "
            "to auto or jvm, which run it in Python workers where real-time mode is not needed"
        )
    if against is not None:
        return driver, against, asked
    against, mend = jvm.attached(spark), "start the application with spark.jars=bsjoin.jar()"
    if against is None:
        against, mend = jvm.lacks_planner(spark), "use a Spark that bsjoin supports"
    if against is None:
        return jvm, "", ""
    if asked:
        raise WorkerEnvironmentError(
            f"{asked}: {against}. {mend[0].upper()}{mend[1:]}, or set {SETTING} to auto or python"
        )
    application = application_of(spark)
    if application not in _warned:
        _warned.add(application)
        _log.warning(
            "bsjoin: joins run in Python workers: %s. They are several times as fast in Spark's "
            "generated code: %s; %s=python hides this warning",
            against,
            mend,
            SETTING,
        )
    return driver, against, ""
