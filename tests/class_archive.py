"""Make the archive of the classes that Spark's JVMs load; where it is there nothing is made.

    python -m tests.class_archive

A JVM maps an archive, and reads the same classes from 280 jars in seconds. Sessions of the tests
use it if it is there (`sessions.py`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from bsjoin import BatchTable
from tests import sessions

_OPTIONS = "spark.driver.extraJavaOptions"


def main() -> None:
    """Run a session that has the usual classes, and whose JVM archives them as it ends."""
    jars = sessions.first_jars()
    if not jars or (archive := sessions.archive_of(jars)).exists():
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        options = f"{sessions.SETTINGS[_OPTIONS]} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        spark = sessions.session("local[2]", {**sessions.SETTINGS, _OPTIONS: options})
        table = BatchTable.build(spark.range(9).selectExpr("id AS k", "id AS v"), on="k")
        for runtime in ("jvm", "python"):
            spark.conf.set("spark.bsjoin.runtime", runtime)
            assert table.join(spark.range(5).toDF("k")).groupBy("v").count().count() == 5
        gateway = SparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        made.rename(archive)


if __name__ == "__main__":
    main()
