"""Keys that are texts with a collation: whatever runs a join, a function of the jar makes them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import WorkerEnvironmentError
from bsjoin.planner.keys import is_collated
from bsjoin.runtimes.jvm.attach import attached


def attach_for(spark: SparkSession, keys: Iterable[T.DataType]) -> None:
    """Let a session make the keys of texts with a collation, if any key is one."""
    collated = [dtype.simpleString() for dtype in keys if is_collated(dtype)]
    against = attached(spark) if collated else None
    if against is not None:
        raise WorkerEnvironmentError(
            f"a key is a {collated[0]}, which Spark compares by its collation key, and a function "
            f"of bsjoin's jar makes that in Python workers, too: {against}. Start the application "
            "with spark.jars=bsjoin.jar(), or cast the key on both sides, as by "
            'F.col(...).cast("string"), which compares the texts as they are'
        )
