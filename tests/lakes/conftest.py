"""A session with Delta, and Iceberg where there is one for this Spark: see ``scripts/lakes.py``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sessions
from lake_samples import ELSEWHERE, LAKES, PACKAGES, Lake
from pyspark.sql import SparkSession

from examples._maven import jars

ROOT = Path(__file__).resolve().parent.parent.parent
# Without the jars, and with a Spark that they do not support, there is nothing to try.
collect_ignore_glob = [] if LAKES else ["test_*"]
# The program of one page has the packages of a Spark that has Delta alone, that of another both.
collect_ignore = [] if LAKES == ["delta"] else ["test_whole_job.py"]

_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("lakes")
    packages = [one for name in LAKES for one in PACKAGES[name]]
    # Spark has all that they need, or the jars have it in them.
    folder_of_jars = jars(packages, only=[one.split(":")[1] for one in packages])
    assert folder_of_jars is not None, "Maven fetches the jars: install it (Debian: maven)"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    settings = {
        **sessions.SETTINGS,
        "spark.jars": ",".join(map(str, sorted(folder_of_jars.glob("*.jar")))),
        "spark.sql.extensions": ",".join(_EXTENSIONS[name] for name in LAKES),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    }
    if "delta" in LAKES:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.sql.catalog.spark_catalog"] = catalog
    if "iceberg" in LAKES:
        # Two catalogues of one folder: each caches tables, as two applications do.
        for name in ("ice", ELSEWHERE):
            settings[f"spark.sql.catalog.{name}"] = "org.apache.iceberg.spark.SparkCatalog"
            settings[f"spark.sql.catalog.{name}.type"] = "hadoop"
            settings[f"spark.sql.catalog.{name}.warehouse"] = str(folder / "ice")
    session = sessions.session("local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _settings_stay() -> None:
    """Delta keeps settings of its own in the session."""


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, spark: SparkSession) -> Lake:
    return Lake(spark, request.param)
