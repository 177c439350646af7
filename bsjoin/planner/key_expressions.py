"""Keys that are expressions of the stream's columns: columns of their own while it is joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from bsjoin.errors import ArgumentError
from bsjoin.planner.arguments import JoinCall
from bsjoin.planner.columns import unused


def keyed_stream(
    call: JoinCall, stream: DataFrame, table: Callable[[], Iterable[str]]
) -> tuple[JoinCall, DataFrame]:
    """The same join with all keys given by name, and the stream with a column for each expression.

    These columns are the ``added`` ones of the call: the result is without them.

    Raises:
        ArgumentError: a key is neither a name nor a pair; or an expression is none that Spark
            evaluates for each row alone.
    """
    if call.on is None or isinstance(call.on, str | Mapping):
        return call, stream
    pairs = [_pair(one) for one in call.on]
    given = [key for key, _ in pairs if isinstance(key, Column)]
    if not given:
        return call, stream
    try:
        # A filter has what a key has: no generator, no aggregate, no window.
        for key in given:
            stream.where(key.isNull()).schema  # noqa: B018
        texts = stream.select(*given).columns
    except PySparkException as error:
        reason = str(error).split("\n")[0].split(" SQLSTATE")[0]
        raise ArgumentError(
            f"on={call.on!r}: a key of the stream is an expression of its columns, of one row "
            f"each: {reason}"
        ) from None
    times = Counter(map(str.lower, texts))
    texts = [f"{text}_{n}" if times[text.lower()] > 1 else text for n, text in enumerate(texts)]
    added = unused([*stream.columns, *table(), *texts], *texts)
    names = iter(added)
    on = [(next(names) if isinstance(key, Column) else key, name) for key, name in pairs]
    columns = [key.alias(name) for key, name in zip(given, added, strict=True)]
    return replace(call, on=on, added=tuple(added)), stream.select("*", *columns)


def _pair(one: object) -> tuple[str | Column, str]:
    if isinstance(one, str):
        return one, one
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], str):
        key, name = one
        if isinstance(key, str | Column):
            return key, name
    raise ArgumentError(
        f"on: {one!r} is neither a column's name nor a pair of the stream's column, or expression, "
        'and the table\'s column, such as (F.lower("name"), "name")'
    )
