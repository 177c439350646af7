"""An end for queries that have none: a wrong look-up may go round in circles."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


class EndlessError(Exception):
    """A query has not ended in time."""


@contextmanager
def ending(spark: SparkSession, seconds: float) -> Iterator[None]:
    """Cancel the jobs of a session that run so long.

    Their tasks may go on, as code that Spark generates does not ask whether it should.

    Raises:
        EndlessError: jobs were cancelled, and so what waits for them has failed.
    """
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        left = seconds
        while not done.wait(left):  # again and again, for jobs that start later
            late.set()
            spark.sparkContext.cancelAllJobs()
            left = 1

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise EndlessError(f"it does not end within {seconds} s, and is cancelled") from error
        raise
    finally:
        done.set()
        watching.join()
