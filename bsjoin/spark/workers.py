"""The Python of Spark's workers must be able to run bsjoin: checked once per application."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._version import NEEDED, __version__, is_older
from bsjoin.errors import WorkerEnvironmentError
from bsjoin.spark.session import application_of, is_connect

_log = logging.getLogger("bsjoin")

_TASKS = 16
_SETTING = "spark.sql.execution.pyspark.python"  # read by every query, unlike PYSPARK_PYTHON
# What Spark says when the workers' Python does not get as far as the report.
_FAILURES = (
    re.compile(r"(Python in worker has different version: [\d.]+)"),
    re.compile(r'(Cannot run program "[^"\n]*").*?: error=\d+(, [^\n]*)'),
    re.compile(r"Error from python worker:\n(?:[ \t]+.*\n)*[ \t]+(\S.*)\n(?![ \t])"),
    re.compile(
        r"An exception was thrown from the Python worker[\s\S]*\n(\w[\w.]*(?:Error|Exception)\b.*)"
    ),
    re.compile(r"((?:EOFException|Bad data)[^\n]*pyspark\.daemon[^\n]*)"),
    re.compile(r"(Python worker (?:failed|exited)[^\n]*)"),
)

_SOCKETS = "spark.python.unix.domain.socket.enabled"

_checked: WeakSet[Any] = WeakSet()
_recommended: WeakSet[Any] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Refuse a session whose workers cannot run bsjoin.

    On a local master they run the driver's Python first, unless a setting names another one. The
    first call of an application (on Connect: of a session) runs a job of up to 16 small tasks that
    report their Python and its packages. On a cluster it sees the executors that
    Spark gives these tasks to, which need not be all of them.

    Raises:
        WorkerEnvironmentError: the workers' Python does not start, or lacks bsjoin in this
            version or a package that it needs; or the driver's lacks pandas.
    """
    _prefer_drivers_python(spark)
    application = application_of(spark)
    if application in _checked:
        return
    for report in _reports(spark):
        problem = _problem(report)
        if problem:
            python = report["executable"]
            raise _error(spark, f"{python} (Python {report['python']}) {problem}", python)
    _checked.add(application)


def recommend_sockets(spark: SparkSession) -> None:
    """Log, once for an application that does not say, what Unix domain sockets would bring."""
    application = application_of(spark)
    if application in _recommended or spark.conf.get(_SOCKETS, None) is not None:
        return
    _recommended.add(application)
    _log.warning(
        "bsjoin: Spark exchanges data with its Python workers over TCP, where every Python stage "
        "of a micro-batch waits some 40 ms for acknowledgements. Start the application with "
        "%s=true to avoid it; with false this warning is not logged",
        _SOCKETS,
    )


def workers_python(spark: SparkSession) -> str | None:
    """The command that starts the workers' Python; None if only the Connect server knows it."""
    python = spark.conf.get(_SETTING, None)
    if not python and not is_connect(spark):
        python = spark.sparkContext.pythonExec
    return python or None


def _prefer_drivers_python(spark: SparkSession) -> None:
    """Let the workers of a local master run the driver's Python, unless a setting says which.

    Spark would take the first ``python3`` of the PATH, which is another one as soon as a virtual
    environment is used without being activated.
    """
    if os.environ.get("PYSPARK_PYTHON") or not sys.executable or not _is_local(spark):
        return
    if all(spark.conf.get(name, None) is None for name in (_SETTING, "spark.pyspark.python")):
        spark.conf.set(_SETTING, sys.executable)


def _is_local(spark: SparkSession) -> bool:
    """Whether the workers run on this machine, in an application of this process."""
    if is_connect(spark):
        return "SPARK_LOCAL_REMOTE" in os.environ  # Spark's mark of a server that it has started
    return str(spark.sparkContext.master).startswith("local")


def _reports(spark: SparkSession) -> list[dict[str, Any]]:
    """Return the reports of tasks; no package but Python's own is needed there."""
    if find_spec("pandas") is None:  # the workers need none
        raise WorkerEnvironmentError(
            "Spark makes functions of its Python workers with pandas only, and the driver's "
            f"Python {sys.executable} has none: run `pip install 'pandas>=2.2.2,<3'`"
        )
    report = F.udf(_reporter(("bsjoin", *NEEDED)), "string", useArrow=False)
    tasks = spark.range(_TASKS).coalesce(_TASKS)
    try:
        found = {row[0] for row in tasks.select(report("id")).collect()}
    except Exception as error:
        reason = _reason(str(error))
        if reason is None:
            raise
    else:
        return [json.loads(text) for text in sorted(found)]
    # Outside the handler: Spark's own message is a page long, and its point is in the reason.
    python = workers_python(spark)
    raise _error(spark, f"{python or 'the Python of the server'} cannot be used: {reason}", python)


def _reporter(modules: tuple[str, ...]) -> Callable[[int], str]:
    def bsjoin_check(_: int) -> str:
        # It is pickled by value, and refers to nothing outside: a worker may have no bsjoin.
        import importlib
        import json
        import platform
        import sys

        versions, failures = {}, {}
        for name in modules:
            try:
                module = importlib.import_module(name)
                versions[name] = str(getattr(module, "__version__", ""))
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {error}"
        found = {"executable": sys.executable, "python": platform.python_version()}
        return json.dumps({**found, "versions": versions, "failures": failures})

    return bsjoin_check


def _problem(report: dict[str, Any]) -> str:
    """Return what a worker lacks; an empty text if nothing."""
    failures, versions = report["failures"], report["versions"]
    absent = [name for name, why in failures.items() if why.endswith(f"No module named {name!r}")]
    parts = [f"has no {', '.join(absent)}"] if absent else []
    parts += [
        f"cannot import {name} ({why})" for name, why in failures.items() if name not in absent
    ]
    if versions.get("bsjoin", __version__) != __version__:
        parts.append(f"has bsjoin {versions['bsjoin']}")
    parts += [
        f"has {name} {versions[name]}, older than {least}"
        for name, least in NEEDED.items()
        if versions.get(name) and is_older(versions[name], least)
    ]
    return " and ".join(parts)


def _reason(text: str) -> str | None:
    """The point of Spark's message about a worker that does not start; None for another one."""
    for pattern in _FAILURES:
        if found := pattern.search(text):
            return "".join(found.groups()).strip()
    return None


def _error(spark: SparkSession, what: str, python: str | None) -> WorkerEnvironmentError:
    version = ".".join(map(str, sys.version_info[:3]))
    return WorkerEnvironmentError(
        f"Spark's workers cannot run bsjoin: {what}. The driver is {sys.executable} (Python "
        f"{version}) with bsjoin {__version__}, and the workers need the same minor "
        f"version of Python and the same bsjoin. {_remedy(spark, python)}"
    )


def _remedy(spark: SparkSession, python: str | None) -> str:
    install = f'pip install "bsjoin=={__version__}"'
    if is_connect(spark):
        return (
            f"Run {install} in a Python that the server's executors have (or ship one with "
            "spark.addArtifact(..., archive=True)), and name it: in this session by "
            f"spark.conf.set({_SETTING!r}, path), or for all by PYSPARK_PYTHON in the "
            "environment in which the Connect server is started"
        )
    if not _is_local(spark):
        return (
            f"Run {install} in a Python that all executors have (or ship one with "
            "spark.archives), and name it before the session starts: by PYSPARK_PYTHON, or "
            "spark-submit --conf spark.pyspark.python=..."
        )
    if python == sys.executable:
        return (
            f"The driver finds its bsjoin in {str(Path(__file__).parents[2])!r}, where "
            f"the workers do not look: run {install} in that Python, or add the folder to "
            "PYTHONPATH before the session starts"
        )
    return (
        f"Set PYSPARK_PYTHON={sys.executable} before the session starts, in the shell or in "
        "os.environ"
    )
