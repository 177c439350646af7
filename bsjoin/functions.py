"""Functions of columns, for the values that range conditions compare."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin.errors import ArgumentError, suggest
from bsjoin.runtimes.choosing import choose
from bsjoin.spark.session import active_session
from bsjoin.spark.workers import check_workers
from bsjoin.values.networks import bounds

__all__ = ["network_end", "network_start"]

OnError = Literal["fail", "null"]


def network_start(
    text: Column | str, *, on_error: OnError = "fail", spark: SparkSession | None = None
) -> Column:
    """The first address of a network, in bytes that compare as addresses do.

    A network is a text such as ``10.0.0.0/8`` or ``2001:db8::/32``; a plain address is the network
    of itself. Bits behind the prefix do not count, as in PostgreSQL's ``inet``: ``10.1.2.3/8`` is
    ``10.0.0.0/8``. Texts are read as by Python's ``ipaddress``, which takes no leading zeros in
    IPv4; prefixes with leading zeros, zone ids (``fe80::1%eth0``) and masks (``/255.0.0.0``) are
    refused, too. No name is looked up.

    All addresses have 16 bytes, IPv4 as IPv4-mapped IPv6 (``::ffff:a.b.c.d``), so that both kinds
    are in one column. A network of IPv6 whose prefix is ``::ffff:0:0/96`` or shorter, such as
    ``::/0``, so contains addresses of IPv4.

    Where joins run in the JVM it is a function of Spark's generated code, in SQL
    ``bsjoin.network_start(text)`` and ``bsjoin.try_network_start(text)``; else it runs in Python
    workers, which read the texts of all rows, also of those that ``F.when`` leaves to another
    branch: there put the condition inside, ``network_start(F.when(is_address, text))``, or use
    ``on_error="null"``.

    Args:
        text: a column of strings, or its name.
        on_error: for a text that is no network: ``"fail"`` (default) fails the query, with a
            :class:`bsjoin.errors.DataError` that names the text; ``"null"`` gives null.
        spark: the session of the DataFrame that the column is for. ``None`` (default): the active
            one of this thread, in ``foreachBatch`` that of the function's DataFrame.

    Returns:
        A column of binary, 16 bytes; null for null. A null point or start matches nothing.

    Raises:
        ArgumentError: ``on_error`` is unknown, or there is no session.
        WorkerEnvironmentError: Python workers run it, and their Python cannot run bsjoin.

    Complexity: O(1) a row.

    Example:
        >>> from pyspark.sql import SparkSession, functions as F
        >>> spark = SparkSession.builder.getOrCreate()
        >>> networks = spark.createDataFrame([("10.0.0.0/8",)], "network string")
        >>> networks.select(F.hex(network_start("network"))).first()[0]
        '00000000000000000000FFFF0A000000'
    """
    return _bound("network_start", text, on_error, spark)


def network_end(
    text: Column | str, *, on_error: OnError = "fail", spark: SparkSession | None = None
) -> Column:
    """The last address of a network, which belongs to it; see :func:`network_start`.

    Args:
        text: a column of strings, or its name.
        on_error: for a text that is no network: ``"fail"`` (default) or ``"null"``.
        spark: as for :func:`network_start`; default None.

    Returns:
        A column of binary, 16 bytes; null for null. To ``Within`` and ``Overlaps`` a null end has
        no bound: where starts and ends are columns of their own, ``"null"`` makes an interval of a
        broken end that contains all addresses behind its start, so leave such rows out.

    Raises:
        ArgumentError: ``on_error`` is unknown, or there is no session.
        WorkerEnvironmentError: Python workers run it, and their Python cannot run bsjoin.

    Example:
        >>> from pyspark.sql import SparkSession, functions as F
        >>> spark = SparkSession.builder.getOrCreate()
        >>> networks = spark.createDataFrame([("10.0.0.0/8",)], "network string")
        >>> networks.select(F.hex(network_end("network"))).first()[0]
        '00000000000000000000FFFF0AFFFFFF'
    """
    return _bound("network_end", text, on_error, spark)


def _bound(function: str, text: Column | str, on_error: str, spark: SparkSession | None) -> Column:
    choices = ("fail", "null")
    if on_error not in choices:
        raise ArgumentError(
            f"on_error={on_error!r} is not known. {suggest(str(on_error), choices)}"
        )
    spark = spark or active_session()
    runtime, _, _ = choose(spark, lambda _: None)
    if runtime.name == "jvm":
        tried = "try_" if on_error == "null" else ""
        return F.call_function(f"bsjoin.{tried}{function}", text)
    check_workers(spark)
    last, null_on_error = function == "network_end", on_error == "null"

    def read(texts: pa.Array) -> pa.Array:
        return bounds(texts, function, last, null_on_error)

    read.__name__ = function
    given = F.col(text) if isinstance(text, str) else text
    made: Column = arrow_udf(read, "binary")(given.cast("string"))
    return made
