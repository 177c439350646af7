"""Sessions that have bsjoin by settings alone: no Python of bsjoin runs in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from sessions import JVM

import bsjoin
from bsjoin import BatchTable

_PROGRAM = """
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

public class Program {
  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().master("local[1]")
        .config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", "warehouse")
        .config("spark.sql.extensions", "bsjoin.Extensions")
        .config("spark.bsjoin.table.customers", arguments[0]).getOrCreate();
    String join = "SELECT o.id, c.name FROM range(5) o LEFT JOIN bsjoin.customers c ON o.id = c.id";
    for (SparkSession session : List.of(spark, spark.newSession())) {
      System.out.println(session.sql(join).orderBy("id").collectAsList());
      System.out.println(
          session.table("bsjoin.`" + arguments[0] + "`").where("id = 2").collectAsList());
      System.out.println(session.sql("SHOW TABLES IN bsjoin").collectAsList());
    }
    System.out.println(spark.read().format("bsjoin").load(arguments[0]).count());
    spark.stop();
  }
}
"""
_OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.misc")
]


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    table = spark.range(3).selectExpr("id", "concat('name ', id) AS name")
    return BatchTable.build(table, on="id", path=tmp_path / "table").path


def output(command: Sequence[str], folder: Path) -> list[str]:
    """The lines that a program prints, run in a folder of its own."""
    (folder / "run").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    done = subprocess.run(
        command, cwd=folder / "run", env=kept, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout.splitlines()


@pytest.mark.long
def test_spark_sql(path: str, tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    join = "SELECT o.id, c.name FROM range(4) o LEFT JOIN bsjoin.customers c ON o.id = c.id"
    settings = {
        "spark.sql.extensions": "bsjoin.Extensions",
        "spark.bsjoin.table.customers": path,
        "spark.jars": bsjoin.jar(),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.extraJavaOptions": JVM,
    }
    found = output(
        [
            str(home / "bin" / "spark-sql"),
            "--master",
            "local[1]",
            *(f"--conf={name}={value}" for name, value in settings.items()),
            "-e",
            f"{join} ORDER BY o.id; SELECT count(*) FROM bsjoin.`{path}`",
        ],
        tmp_path,
    )
    assert found == ["0\tname 0", "1\tname 1", "2\tname 2", "3\tNULL", "3"]


@pytest.mark.long
def test_a_java_program(path: str, tmp_path: Path) -> None:
    java = shutil.which("java", path=os.environ.get("JAVA_HOME", "") + "/bin") or "java"
    classpath = f"{bsjoin.jar()}:{Path(pyspark.__file__).parent}/jars/*"
    (tmp_path / "Program.java").write_text(_PROGRAM)
    command = [java, *JVM.split(), *_OPENS, "-cp", classpath, str(tmp_path / "Program.java"), path]
    once = [
        "[[0,name 0], [1,name 1], [2,name 2], [3,null], [4,null]]",
        "[[2,name 2]]",
        "[[default,customers,false]]",
    ]
    assert output(command, tmp_path) == [*once, *once, "3"]
