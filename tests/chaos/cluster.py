"""A process with the master and two workers of a standalone cluster, which outlives its drivers.

``python -m tests.chaos.cluster FOLDER`` prints the master's URL, and ends with its input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext

from tests.standalone import start


def main(folder: Path) -> None:
    """Run until the input ends."""
    conf = SparkConf(loadDefaults=False).setAll(
        [
            ("spark.driver.memory", "512m"),
            ("spark.log.level", "OFF"),
            ("spark.deploy.maxExecutorRetries", "-1"),  # executors are killed on purpose
        ]
    )
    SparkContext._ensure_initialized(conf=conf)
    gateway = SparkContext._gateway
    gateway.jvm.java.lang.System.setProperty("spark.deploy.maxExecutorRetries", "-1")
    print(start(gateway, folder, [1, 1], ["", ""]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
