"""Networks as ranges of addresses: as Python's ``ipaddress`` reads them, in both runtimes."""

from __future__ import annotations

import ipaddress
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed

from bsjoin.errors import ArgumentError, DataError, cause_of
from bsjoin.functions import network_end, network_start
from bsjoin.values.networks import ends_of
from tests.fuzz.networks import REFUSED, WELL_KNOWN
from tests.fuzz.networks import ends_of as reference

PIECES = "0123456789abcdefABF.:/%-+ xg\u0661\x00"


def texts() -> list[str]:
    """Networks and addresses of both kinds, and the same with some characters changed."""
    draw = random.Random(39)
    found = [
        *WELL_KNOWN.split(),
        *REFUSED.split(),
        "",
        " 10.0.0.1",
        "10.0.0.1 ",
        "10.0.0.1\n",
        "a" * 999,
    ]
    for number in range(1_500):
        bits = (32, 128)[number % 2]
        value = draw.getrandbits(bits) & -1 << draw.randrange(bits)
        value &= draw.choice([-1, draw.getrandbits(bits)])
        address = ipaddress.IPv4Address(value) if bits == 32 else ipaddress.IPv6Address(value)
        text = draw.choice([str(address), address.exploded])
        text += draw.choice(["", f"/{draw.randrange(bits + 1)}"])
        found.append(text)
        for _ in range(draw.randrange(3)):
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice([*PIECES, "", ""]) + text[at + draw.randrange(2) :]
        found.append(text)
    return found


def test_networks_are_those_of_the_standard_library() -> None:
    for text in texts():
        assert ends_of(text) == reference(text), text
    assert all(map(ends_of, WELL_KNOWN.split()))
    assert not any(map(ends_of, REFUSED.split()))


@pytest.mark.in_turns("runtime", others="long")
@pytest.mark.usefixtures("runtime")
def test_columns_have_the_ends_of_networks(spark: SparkSession) -> None:
    given = [*texts(), None]
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(given)], "n int, t string")
    broken = spark.sql("SELECT -1 AS n, CAST(X'31FF2E' AS STRING) AS t")  # not UTF-8
    tried: Any = {"on_error": "null"}
    found = rows.unionAll(broken).select(
        "n",
        network_start("t", **tried).alias("start"),
        network_end(F.col("t"), **tried).alias("end"),
    )
    ends = {row.n: (row.start, row.end) for row in found.collect()}
    assert ends.pop(-1) == (None, None)
    for number, text in enumerate(given):
        wanted = (text is not None and reference(text)) or (None, None)
        got = tuple(None if end is None else bytes(end) for end in ends[number])
        assert got == wanted, text


@pytest.mark.in_turns("runtime")
@pytest.mark.usefixtures("runtime")
def test_a_text_that_is_no_network_fails_the_query_by_its_value(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("10.0.0.0/8",), ("10.0.0.256",)], "t string")
    for function in (network_start, network_end):
        with pytest.raises((Py4JJavaError, PySparkException)) as raised:
            rows.select(function("t")).collect()
        cause = cause_of(raised.value)
        assert isinstance(cause, DataError)
        assert f"bsjoin.{function.__name__}: '10.0.0.256' is no address and no network" in str(
            cause
        )
        assert f"bsjoin.try_{function.__name__}" in str(cause)
    assert rows.select(network_end("t", on_error="null").alias("e")).where("e IS NULL").count() == 1


def test_arguments_are_checked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="on_error='stale' is not known"):
        network_start("t", on_error="stale")  # type: ignore[arg-type]
    monkeypatch.setattr(SparkSession, "active", staticmethod(_without_session))
    with pytest.raises(ArgumentError, match="no active Spark session"):
        network_start("t")


def _without_session() -> SparkSession:
    raise PySparkRuntimeError(errorClass="NO_ACTIVE_OR_DEFAULT_SESSION", messageParameters={})


def test_the_function_is_for_the_session_of_its_dataframe(spark: SparkSession, feed: Feed) -> None:
    """A copy of the session in ``foreachBatch``, another thread's, or a new one that is given."""

    def first(df: DataFrame, **given: Any) -> Any:
        start = network_start(F.lit("::7"), **given)
        return df.sparkSession.range(1).select(F.hex(start).alias("x")).first()

    with ThreadPoolExecutor(1) as pool:
        found = [pool.submit(first, spark.range(1)).result()]
    other = spark.newSession()
    found.append(first(other.range(1), spark=other))
    set_by_bsjoin = ("spark.sql.catalog.bsjoin", "spark.bsjoin.jvm.build")
    before = {name: str(spark.conf.get(name)) for name in set_by_bsjoin}
    for name in before:
        spark.conf.unset(name)  # as in an application that has not called bsjoin yet
    try:
        feed.add(1)
        writer = feed.stream.writeStream.foreachBatch(lambda df, _: found.append(first(df)))
        query = writer.start()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    query.processAllAvailable()
    assert [row.x for row in found] == ["0" * 31 + "7"] * 3


def test_sql_has_the_functions(spark: SparkSession) -> None:
    row = spark.sql(
        "SELECT hex(bsjoin.network_start('10.0.0.0/8')), hex(bsjoin.Network_End('::/1')), "
        "bsjoin.try_network_end('10'), bsjoin.network_start(NULL)"
    ).first()
    assert list(row) == ["00000000000000000000FFFF0A000000", "7" + "F" * 31, None, None]
    with pytest.raises(PySparkException, match="takes 1 arguments, not 2"):
        spark.sql("SELECT bsjoin.network_start('::', 1)")
