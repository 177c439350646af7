"""The choice of a cache for a source: ``cache="auto"``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bsjoin.options import ON_COMMIT, Full, Incremental
from bsjoin.planner.cycle import Cycle
from bsjoin.sources.protocol import Source
from bsjoin.spark.fingerprint import read_anew
from bsjoin.spark.session import micro_batch
from bsjoin.spark.source_versions import why_not_followed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("bsjoin")

_FULL_UP_TO_ROWS = 1_000_000
_AUTOMATIC_FULL = Full(refresh="10 minutes")
_AUTOMATIC_INCREMENTAL = Incremental(max_bytes="1 GiB")


def automatic_cache(
    stream: DataFrame, source: Source, cycle: Cycle | None, *, needs_whole: bool
) -> Full | Incremental:
    """Choose a cache; the cycles of one join keep the first choice.

    ``needs_whole`` says that the source cannot be queried by key for this join.
    """
    if cycle is None:
        follows = stream.isStreaming or micro_batch(stream) is not None
        return _chosen(source, needs_whole, follows=follows)
    if cycle.state.cache is None:
        cycle.state.cache = _chosen(source, needs_whole, follows=True)
    return cycle.state.cache


def automatic_full(stream: DataFrame, table: DataFrame, cycle: Cycle | None) -> Full:
    """Choose how a DataFrame is cached: one that Spark's own join would read anew is followed."""
    if not (stream.isStreaming or cycle is not None):
        return Full()
    names = read_anew(table)
    if not names or why_not_followed(table) is not None:
        return Full()
    _log.info("bsjoin: the table follows the versions of %s", " and ".join(names))
    return Full(refresh=ON_COMMIT)


def _chosen(source: Source, needs_whole: bool, follows: bool) -> Full | Incremental:
    """Choose by size and log it; ``follows``: whether the join goes on while the source changes."""
    rows = source.size() if source.can_scan and not needs_whole else None
    if needs_whole or (rows is not None and rows <= _FULL_UP_TO_ROWS):
        why = (
            "is not queried by the keys of this join" if rows is None else f"has about {rows} rows"
        )
        chosen = _AUTOMATIC_FULL if follows else Full()
        times = f"now and again every {chosen.refresh}" if follows else "once"
        _log.info("bsjoin: full cache for %r, which %s: it is read %s", source, why, times)
        return chosen
    why = "cannot be read whole" if not source.can_scan else f"has about {rows} rows"
    if rows is None and source.can_scan:
        why = "does not report its size"
    _log.info("bsjoin: incremental cache of up to 1 GiB for %r, which %s", source, why)
    return _AUTOMATIC_INCREMENTAL
