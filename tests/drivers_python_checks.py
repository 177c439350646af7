"""What :mod:`test_workers_python` runs in processes of their own: a newcomer's first session.

    python tests/drivers_python_checks.py [connect]

The driver's Python has bsjoin, as that of a virtual environment that is not activated; the first
``python3`` of the PATH has nothing, and nothing is set.
"""

from __future__ import annotations

import os
import sys
import tempfile
import venv
from pathlib import Path

from sessions import SETTINGS

SETTING = "spark.sql.execution.pyspark.python"


def main(connect: bool) -> None:
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
    venv.EnvBuilder(symlinks=True).create(folder / "other")
    os.environ["PATH"] = os.pathsep.join([str(folder / "other" / "bin"), os.environ["PATH"]])
    os.environ.pop("PYSPARK_PYTHON", None)
    os.environ["SPARK_TESTING"] = "1"  # a server takes any free port

    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812
    from spark_samples import rows

    import bsjoin

    settings = {name: SETTINGS[name] for name in SETTINGS if "python.daemon" not in name}
    builder = SparkSession.builder.config(map=settings)
    spark = (builder.remote if connect else builder.master)("local[2]").getOrCreate()
    table = spark.range(4).selectExpr("id AS k", "id * 10 AS v")

    def joined(session: SparkSession) -> list[tuple[int, ...]]:
        return rows(bsjoin.join(session.range(2, 5).toDF("k"), table, on="k"))

    wanted = [(2, 20), (3, 30)]
    assert joined(spark) == wanted
    spark.conf.set("spark.bsjoin.runtime", "python")
    assert joined(spark) == wanted
    source = bsjoin.sources.function(lambda keys: keys, {"k": pyarrow.int64()})
    cached = bsjoin.join(
        spark.range(2, 4).toDF("k"), source, on="k", cache=bsjoin.Incremental(max_rows=9)
    )
    assert rows(cached) == [(2,), (3,)]
    # Functions of the user's own find themselves in the same Python.
    where = F.udf(lambda _: __import__("sys").executable, useArrow=False)
    assert rows(spark.range(1).select(where("id"))) == [(sys.executable,)]
    # In each session, until somebody says otherwise.
    if not connect:
        other = spark.newSession()
        other.conf.set("spark.bsjoin.runtime", "python")
        table = other.range(4).selectExpr("id AS k", "id * 10 AS v")
        assert joined(other) == wanted
        told = spark.newSession()
        told.conf.set(SETTING, "somewhere")
        bsjoin.spark.workers._prefer_drivers_python(told)
        assert told.conf.get(SETTING) == "somewhere"
    print("a newcomer's session: right", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:] == ["connect"])
