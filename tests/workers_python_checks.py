"""What :mod:`test_workers_python` runs in a process of its own: workers with another Python.

It is started as by a user who forgets ``PYSPARK_PYTHON``: Spark's workers run a Python that has
nothing of bsjoin's. For a newcomer nothing is set at all: the driver's Python is that of a virtual
environment that is not activated, and the first ``python3`` of the PATH has nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import venv
from pathlib import Path

import pyarrow
import pytest
from checks_apart import named, run
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import INTERPRETED, session
from spark_samples import rows

import bsjoin
from bsjoin import BatchTable
from bsjoin.errors import ColumnError, WorkerEnvironmentError
from bsjoin.functions import network_start
from bsjoin.spark import workers

SETTING = "spark.sql.execution.pyspark.python"
ROOT = Path(bsjoin.__file__).resolve().parent.parent
PACKAGES = Path(pyarrow.__file__).parent.parent
OURS = re.compile(r"(bsjoin|_editable_impl_bsjoin)\b.*|__pycache__")


def python_of(folder: Path) -> str:
    """A virtual environment without any package."""
    venv.EnvBuilder(symlinks=True).create(folder)
    return str(folder / "bin" / "python")


def site_packages(python: str) -> Path:
    return next(Path(python).parent.parent.glob("lib/python*/site-packages"))


def python_with_our_packages(folder: Path, without: str = "bsjoin") -> str:
    """A virtual environment with all packages of this one but bsjoin, and one more."""
    python = python_of(folder)
    for package in PACKAGES.iterdir():
        if not OURS.fullmatch(package.name) and not package.name.startswith(without):
            (site_packages(python) / package.name).symlink_to(package)
    return python


def join(spark: SparkSession) -> list[tuple[int, ...]]:
    table = spark.range(4).selectExpr("id AS k", "id * 10 AS v")
    return rows(bsjoin.join(spark.range(2, 5).toDF("k"), table, on="k"))


def refusal(spark: SparkSession, python: str | None = None) -> str:
    """What a join says while the workers run this Python."""
    if python is not None:
        spark.conf.set(SETTING, python)
    try:
        with pytest.raises(WorkerEnvironmentError) as raised:
            join(spark)
    finally:
        spark.conf.unset(SETTING)
    # The one error: no page of Spark's above it.
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    message = str(raised.value)
    assert f"The driver is {sys.executable} (Python 3." in message
    assert f"bsjoin {bsjoin.__version__}" in message
    return message


def a_python_without_any_package(spark: SparkSession, folder: Path) -> None:
    message = refusal(spark)
    assert f"{os.environ['PYSPARK_PYTHON']} (Python 3." in message
    assert "has no bsjoin, pyarrow, numpy, " in message
    assert f"Set PYSPARK_PYTHON={sys.executable} before the session starts" in message


def every_way_into_the_workers_is_checked(spark: SparkSession, folder: Path) -> None:
    table = spark.range(4).selectExpr("id AS k", "id * 10 AS v")
    fields = {"k": pyarrow.int64(), "since": pyarrow.int64()}
    source = bsjoin.sources.function(lambda keys: keys, fields)
    probe = spark.range(2, 5).selectExpr("id AS k", "id AS at")
    cache = bsjoin.Incremental(max_rows=10)
    for way in (
        lambda: BatchTable.build(table, on="k", path=folder / "t"),
        lambda: bsjoin.join(probe, source, "k", cache=cache),
        lambda: bsjoin.join(probe, source, "k", when=bsjoin.AsOf("at", "since"), cache=cache),
    ):
        with pytest.raises(WorkerEnvironmentError):
            way()
    spark.conf.set("spark.bsjoin.runtime", "python")
    with pytest.raises(WorkerEnvironmentError):
        network_start("text", spark=spark)
    spark.conf.unset("spark.bsjoin.runtime")
    assert not (folder / "t").exists()
    # What is wrong with the call comes first.
    with pytest.raises(ColumnError):
        bsjoin.join(probe, table, on="nope")


def a_python_that_lacks_bsjoin_only(spark: SparkSession, folder: Path) -> None:
    python = python_with_our_packages(folder / "python")
    message = refusal(spark, python)
    assert re.search(rf"{re.escape(python)} \(Python 3[.\d]+\) has no bsjoin\. ", message)
    # The driver's own Python, where only the driver finds bsjoin.
    executable, sys.executable = sys.executable, python
    try:
        message = refusal(spark, python)
    finally:
        sys.executable = executable
    assert f"The driver finds its bsjoin in {str(ROOT)!r}" in message
    assert f'pip install "bsjoin=={bsjoin.__version__}"' in message


def another_version_and_a_package_that_is_not_there(spark: SparkSession, folder: Path) -> None:
    python = python_with_our_packages(folder / "python", without="xxhash")
    other = site_packages(python) / "bsjoin"
    shutil.copytree(ROOT / "bsjoin", other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "_version.py").write_text('__version__ = "0.0.9"')
    (site_packages(python) / "xxhash.py").write_text("import nothing_of_that_name")
    assert (
        "cannot import xxhash (ModuleNotFoundError: No module named 'nothing_of_that_name') "
        "and has bsjoin 0.0.9. " in refusal(spark, python)
    )
    (site_packages(python) / "xxhash.py").write_text("__version__ = '2.0.2'")
    assert "has bsjoin 0.0.9 and has xxhash 2.0.2, older than 3.4. " in refusal(spark, python)


def a_python_that_does_not_start(spark: SparkSession, folder: Path) -> None:
    absent = str(folder / "nope" / "python")
    assert f'{absent} cannot be used: Cannot run program "{absent}", No such file' in refusal(
        spark, absent
    )
    assert f"{shutil.which('false')} cannot be used: " in refusal(spark, shutil.which("false"))
    python = python_of(folder / "python")
    # No other Python needs to be installed here: this one says that it is one.
    (site_packages(python) / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "fields = collections.namedtuple('fields', 'major minor micro releaselevel serial')\n"
        "sys.version_info = fields(3, 99, 0, 'final', 0)\n"
    )
    assert "Python in worker has different version: 3.99" in refusal(spark, python)
    python = python_of(folder / "broken")
    (site_packages(python) / "py4j.py").write_text("raise ImportError('no py4j for you')")
    first = f"import sys; sys.path.insert(0, {str(site_packages(python))!r})"
    (site_packages(python) / "first.pth").write_text(first)
    assert f"{python} cannot be used: ImportError: no py4j for you. " in refusal(spark, python)


def one_that_suffices_is_checked_once(spark: SparkSession, folder: Path) -> None:
    python = python_with_our_packages(folder / "python")
    (site_packages(python) / "bsjoin").symlink_to(ROOT / "bsjoin")
    spark.conf.set(SETTING, python)
    assert join(spark) == [(2, 20), (3, 30)]
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    table = BatchTable.build(spark.range(4).toDF("k"), on="k")
    other = spark.newSession()
    other.conf.set(SETTING, python)
    before = len(jobs())
    for one in (spark, other):
        one.conf.set("spark.bsjoin.runtime", "python")
        table.join(one.range(2).toDF("k"))
    assert len(jobs()) == before
    workers._checked.clear()
    table.join(spark.range(2).toDF("k"))
    assert len(jobs()) == before + 1


def a_newcomers_session_runs_the_drivers_python(spark: SparkSession, folder: Path) -> None:
    """Nothing needs to be set."""
    assert join(spark) == [(2, 20), (3, 30)]
    spark.conf.set("spark.bsjoin.runtime", "python")
    assert join(spark) == [(2, 20), (3, 30)]
    # Functions of the user's own find themselves in the same Python.
    where = F.udf(lambda _: __import__("sys").executable, useArrow=False)
    assert rows(spark.range(1).select(where("id"))) == [(sys.executable,)]
    # In each session, until somebody says otherwise.
    other = spark.newSession()
    other.conf.set("spark.bsjoin.runtime", "python")
    table = other.range(4).selectExpr("id AS k")
    assert rows(bsjoin.join(other.range(2, 5).toDF("k"), table, on="k")) == [(2,), (3,)]
    told = spark.newSession()
    told.conf.set(SETTING, "somewhere")
    workers._prefer_drivers_python(told)
    assert told.conf.get(SETTING) == "somewhere"


CHECKS = named(
    a_python_without_any_package,
    every_way_into_the_workers_is_checked,
    a_python_that_lacks_bsjoin_only,
    another_version_and_a_package_that_is_not_there,
    a_python_that_does_not_start,
    one_that_suffices_is_checked_once,
)
NEWCOMER = named(a_newcomers_session_runs_the_drivers_python)

if __name__ == "__main__":
    other = python_of(Path.cwd() / "python3")
    # Spark's own daemon: the tests' is not found there.
    settings = {name: INTERPRETED[name] for name in INTERPRETED if "python.daemon" not in name}
    # A virtual environment's Python runs this program, and nothing tells Spark so.
    os.environ["PATH"] = os.pathsep.join([str(Path(other).parent), os.environ["PATH"]])
    path = os.environ.pop("PYTHONPATH", "")
    os.environ["PYSPARK_PYTHON"] = other
    run(CHECKS, session("local[2]", settings))
    del os.environ["PYSPARK_PYTHON"]
    run(NEWCOMER, session("local[2]", {**settings, "spark.executorEnv.PYTHONPATH": path}))
