"""What other versions of Spark answer (`make minimum`), the installed one does."""

from __future__ import annotations

from pathlib import Path

import smoke_jvm
from pyspark.sql import SparkSession


def test_every_type_and_a_stream_in_generated_code(spark: SparkSession, tmp_path: Path) -> None:
    smoke_jvm.checks(spark, tmp_path)
