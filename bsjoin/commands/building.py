"""``build`` and ``estimate``: a table made, or measured on samples, by a Spark session."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bsjoin._secrets import scrubbed
from bsjoin._show import in_bytes
from bsjoin.commands.answer import Answer
from bsjoin.commands.estimating import estimated
from bsjoin.commands.starting import message_of, pairs, secrets_in_words, session
from bsjoin.conditions import AsOf, Band, Condition, Overlaps, Within
from bsjoin.errors import ArgumentError, BSJoinError, cause_of
from bsjoin.storage import StorageLocation, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bsjoin.table import BatchTable


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the commands to a parser of ``argparse``."""
    source = argparse.ArgumentParser(add_help=False, parents=[shared])
    source.add_argument("source", help="a path, or the name of a table with --format table")
    told = "the format of the path as Spark's reader names it, or 'table'; parquet"
    source.add_argument("--format", default="parquet", help=told)
    told = "an option of Spark's reader; may be repeated"
    source.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=told)
    told = "the key columns, separated by commas; '' for a pure range join"
    source.add_argument("--on", required=True, metavar="COLUMNS", help=told)
    kinds = source.add_mutually_exclusive_group()
    kinds.add_argument("--band", metavar="COLUMN", help="index the rows of each key for bands")
    kinds.add_argument("--as-of", metavar="COLUMN", help="... for as-of joins")
    kinds.add_argument("--within", nargs=2, metavar=("START", "END"), help="... for intervals")
    kinds.add_argument("--overlaps", nargs=2, metavar=("START", "END"), help="... for overlaps")
    told = "which ends belong to intervals: left, right, both, neither; left"
    source.add_argument("--closed", help=told)
    told = "keep the latest row of each key by these columns, separated by commas"
    source.add_argument("--latest-by", metavar="COLUMNS", help=told)
    told = "how many rows of a key --latest-by keeps; 1"
    source.add_argument("--keep", type=int, default=1, help=told)
    told = "key columns in which null equals null in joins, separated by commas"
    source.add_argument("--nulls-equal", metavar="COLUMNS", help=told)
    told = "a setting of the Spark session; may be repeated"
    source.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help=told)

    told = "index a source, and store it as a table or its next version"
    build = commands.add_parser("build", help=told, description=told, parents=[source])
    build.set_defaults(run=_build)
    build.add_argument("table", help="folder or URL of the table")
    build.add_argument("--unique", action="store_true", help="fail if a key occurs twice")
    told = "your own name for the state of the source; default: computed"
    build.add_argument("--fingerprint", help=told)

    told = "rows, disk, memory and build time of a table, measured on samples of its source"
    estimate = commands.add_parser("estimate", help=told, description=told, parents=[source])
    estimate.set_defaults(run=_estimate)


def _read(options: argparse.Namespace) -> DataFrame:
    given = pairs(options.option, "--option")
    spark = session(options)
    from bsjoin.spark import compat

    reader = spark.read.options(**given)
    try:
        if options.format == "table":
            return reader.table(options.source)
        return reader.format(options.format).load(options.source)
    except compat.failures() as error:
        what = f"{options.source!r} (--format={options.format})"
        told = f"Spark cannot read {what}: {message_of(error)}"
        raise ArgumentError(_scrubbed(told, options)) from None


def _scrubbed(text: str, options: argparse.Namespace) -> str:
    words = (options.source, *options.option, *options.conf)
    return scrubbed(text, secrets_in_words(words))


def _names(options: argparse.Namespace, option: str) -> list[str]:
    text = getattr(options, option)
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if not all(names):
        given = f"--{option.replace('_', '-')}={text!r}"
        raise ArgumentError(f"{given}: give names of columns, separated by commas")
    return names


def _condition(options: argparse.Namespace) -> Condition | None:
    closed: Any = "left" if options.closed is None else options.closed
    if options.closed is not None and options.within is None and options.overlaps is None:
        raise ArgumentError(f"--closed={closed!r} is of intervals: give --within or --overlaps too")
    # The stream's columns are those of each join; the table's are stored.
    if options.band is not None:
        return Band(options.band, options.band, before=0, after=0)
    if options.as_of is not None:
        return AsOf(options.as_of, options.as_of)
    if options.within is not None:
        start, end = options.within
        return Within(start, start, end, closed=closed)
    if options.overlaps is not None:
        pair = tuple(options.overlaps)
        return Overlaps(pair, pair, closed=closed)
    return None


def _stored(df: DataFrame, options: argparse.Namespace, **more: Any) -> BatchTable:
    from bsjoin.table import BatchTable

    return BatchTable.build(
        df,
        on=_names(options, "on") if options.on.strip() else [],
        when=_condition(options),
        latest_by=_names(options, "latest_by"),
        keep=options.keep,
        nulls_equal=_names(options, "nulls_equal"),
        **more,
    )


def _by_spark(work: Callable[[argparse.Namespace], Answer]) -> Callable[[Any], Answer]:
    """A command whose failures of Spark are errors that say what Spark says, in a line."""

    @functools.wraps(work)
    def told(options: argparse.Namespace) -> Answer:
        try:
            return work(options)
        except (BSJoinError, ImportError):
            raise
        except Exception as error:
            from bsjoin.spark import compat

            if not isinstance(error, compat.failures()):
                raise
            if (cause := cause_of(error)) is not None:
                raise cause from None
            told = f"Spark fails: {message_of(error)}"
            raise BSJoinError(_scrubbed(told, options)) from None

    return told


@_by_spark
def _build(options: argparse.Namespace) -> Answer:
    began = time.perf_counter()
    location = StorageLocation.of(options.table)
    before = versions.numbers(location)[-1:]
    stats = _stored(
        _read(options),
        options,
        path=options.table,
        unique=options.unique,
        fingerprint=options.fingerprint,
    ).stats()
    took_s = time.perf_counter() - began
    built = [stats.version] != before
    text = (
        f"{'' if built else 'nothing has changed: '}version {stats.version} of {location}: "
        f"{stats.rows:,} rows, {stats.keys:,} keys, {in_bytes(stats.bytes)}, in {took_s:.1f} s"
    )
    return Answer(text, dataclasses.asdict(stats) | {"built": built})


@_by_spark
def _estimate(options: argparse.Namespace) -> Answer:
    found = estimated(_read(options), lambda sample: _stored(sample, options))
    return Answer(found.text, found)
