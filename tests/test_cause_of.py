"""``errors.cause_of`` finds bsjoin's error, of its own class, in what Spark raises."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, files, table_of

import bsjoin
from bsjoin import BatchTable, Incremental, errors
from bsjoin.errors import BSJoinError, cause_of
from bsjoin.runtimes.python.worker.loading import CircuitOpenError

pytestmark = pytest.mark.usefixtures("without_code")

CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "cause_of"]
MESSAGE = "the table 'a: b' is gone: at last\nin two lines, bsjoin says"
# How Spark, Python and Java write down that an error was raised from another one.
FORMS = [
    "{0}",
    "{0}\n",
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    raise x\n{0}\n',
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 3.0 (TID 5) (vm executor driver): java.lang.IllegalStateException: {0}"
    "\n\tat bsjoin.jvm.storage.TableError.of(TableError.java:24)\n\tat java.base/x.y(Z.java:1)\n\n"
    "Driver stacktrace:\n",
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {0} SQLSTATE: XXKST",
    "[STREAM_FAILED] it: {0}\n SQLSTATE: 39000 SQLSTATE: XXKST\n=== Streaming Query ===\nId: 1",
    "x\n\nJVM stacktrace:\norg.apache.spark.SparkException: x\n\tat a.b(C.scala:1)\nCaused by: "
    "java.lang.IllegalStateException: {0}\n\tat a.b(C.java:1)\n\t... 3 more\n",
    "Traceback (most recent call last):\nbsjoin.errors.SourceError: it was lost\n\nThe above "
    "exception was the direct cause of the following exception:\n\nTraceback (most recent call "
    "last):\n{0}\n\tat org.apache.spark.api.python.BasePythonRunner(X.scala:1)\n",
    "{0}\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most "
    "recent call last):\nRuntimeError: none of ours\n",
]


def test_it_is_read_from_every_text() -> None:
    for kind, form in itertools.product(CLASSES, FORMS):
        found = cause_of(RuntimeError(form.format(f"bsjoin.errors.{kind.__name__}: {MESSAGE}")))
        assert type(found) is kind
        assert str(found) == MESSAGE
    for text in (
        "", "x", "bsjoin.errors", "bsjoin.errors.NoneOfOurs: x", "errors.SourceError: x",
        "bsjoin.errors.suggest: x", "bsjoin.nowhere.SourceError: x", "other.bsjoin: x",
        "bsjoin.runtimes.python.worker.loading.Loader: x", "bsjoin.errors.SourceError",
    ):  # fmt: skip
        assert cause_of(RuntimeError(text)) is None
    assert cause_of(KeyError()) is None
    # A private class is its public base.
    name = f"{CircuitOpenError.__module__}.{CircuitOpenError.__name__}"
    found = cause_of(RuntimeError(f"{name}: open"))
    assert type(found) is errors.LookupFailedError
    assert str(found) == "open"


def test_it_is_found_among_what_an_exception_was_raised_from() -> None:
    first = errors.VersionNotFoundError("gone")
    assert cause_of(first) is first
    for outer in (raised_from(first), raised_from(raised_from(first)), raised_while(first)):
        assert cause_of(outer) is first
    circle = RuntimeError("x")
    circle.__cause__ = raised_from(circle)
    assert cause_of(circle) is None


def raised_from(error: BaseException) -> BaseException:
    other = RuntimeError("other")
    other.__cause__ = error
    return other


def raised_while(error: BaseException) -> BaseException:
    other = RuntimeError("other")
    other.__context__ = error
    return other


def failure(action: Any) -> BSJoinError:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - one of Spark's, of several classes
        action()
    assert not isinstance(raised.value, BSJoinError)
    found = cause_of(raised.value)
    assert found is not None, raised.value
    return found


@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_a_damaged_table(spark: SparkSession, tmp_path: Path, runtime: str) -> None:
    with configured(spark, {"spark.bsjoin.runtime": runtime}):
        table = BatchTable.build(table_of(spark, 1), on="k", path=tmp_path / "table")
        joined = table.join(spark.range(3).withColumnRenamed("id", "k"))
        for file in files(tmp_path / "table" / "data"):
            file.write_bytes(file.read_bytes()[:100])
        found = failure(joined.collect)
    assert type(found) is errors.DamagedTableError
    assert "damaged" in str(found)
    assert "\n\tat" not in str(found)


@pytest.mark.parametrize("kind", ["workers", "function", "plan"])
def test_a_query_that_fails(spark: SparkSession, feed: Feed, tmp_path: Path, kind: str) -> None:
    """In Python workers, in the function for foreachBatch, and where a look-up is planned."""
    source = Model(tmp_path / "model", pa.table({"k": [1], "v": ["x"]}))
    source.fail(100)
    feed.add(1)
    cache = Incremental(max_rows=9, retries=0)

    def wrong(batch: DataFrame, number: int) -> None:
        if kind == "plan":
            bsjoin.join(batch, source, "k", cache=cache).collect()
        bsjoin.join(batch, table_of(spark, 1), "no such column")

    stream = feed.stream
    if kind == "workers":
        query = feed.start(bsjoin.join(stream, source, "k", cache=cache))
    else:
        query = stream.withColumn("n", F.lit(1)).writeStream.foreachBatch(wrong).start()
    found = failure(query.processAllAvailable)
    assert type(found) is (errors.ColumnError if kind == "function" else errors.LookupFailedError)
    assert str(found) == str(cause_of(query.exception()))  # type: ignore[arg-type]
    if kind == "function":
        assert str(found).startswith("on: the stream has no column 'no such column'")
        assert str(found).endswith("There are: 'k', 'n'.")
