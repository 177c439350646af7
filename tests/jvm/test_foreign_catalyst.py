"""A restart with a Spark that lacks what the planner needs: the table is found, rows are right."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from spark_samples import write_parquet

from bsjoin import BatchTable
from bsjoin.runtimes.jvm.jar import compiled

LACKING = "org/apache/spark/sql/catalyst/expressions/BloomFilterMightContain"
ROOT = Path(__file__).parents[2]


def without(source: Path, target: Path, name: str) -> None:
    """Copy a jar without a class."""
    with zipfile.ZipFile(source) as jar, zipfile.ZipFile(target, "w") as copy:
        for entry in jar.infolist():
            if entry.filename not in (f"{name}.class", f"{name}$.class"):
                copy.writestr(entry, jar.read(entry))


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark whose Catalyst lacks a class."""
    installed, home = Path(pyspark.__file__).parent, tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for entry in installed.iterdir():
        if entry.name != "jars":
            (home / entry.name).symlink_to(entry)
    for jar in (installed / "jars").iterdir():
        if jar.name.startswith("spark-catalyst_"):
            without(jar, home / "jars" / jar.name, LACKING)
        else:
            (home / "jars" / jar.name).symlink_to(jar)
    return home


@pytest.mark.long
def test_a_restarted_application_finds_its_table_in_another_spark(
    spark: SparkSession, tmp_path: Path, spark_home: Path
) -> None:
    compiled()  # with the whole Spark
    path, source = tmp_path / "table", tmp_path / "source"
    write_parquet(source / "0.parquet", k=[0, 1, 2], v=[5, 6, 7])
    df = spark.read.schema("k long, v long").parquet(str(source)).where("k < 2")
    BatchTable.build(df, on="k", path=path)
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    checks = str(ROOT / "tests/foreign_catalyst_checks.py")
    done = subprocess.run(
        [sys.executable, checks, str(source), str(path)],
        env={
            **os.environ,
            "SPARK_HOME": str(spark_home),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["version 1", *["rows [(0, 5), (1, 6), (2, None)]"] * 3]
    # Nothing was built to find it: not even a folder was changed.
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
    warnings = [line for line in done.stderr.splitlines() if "another planner" in line]
    assert len(warnings) == 2, done.stderr[-3000:]  # of plain joins, and of bsjoin.join
    for warning, said in zip(warnings, ("by a scan and", "in Python workers"), strict=True):
        assert said in warning
        assert LACKING.replace("/", ".") + " is not there" in warning
