"""The versions of what a DataFrame reads: asked for cheaply, and read again as they were.

Delta's log, the version and the identifier that a table of Spark's second interface tells, and
lists of files. Of everything else no version is known: :func:`why_not_followed` says why.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from bsjoin._secrets import scrubbed
from bsjoin.errors import SourceError
from bsjoin.spark import compat
from bsjoin.spark.lake_columns import columns_at
from bsjoin.spark.lakes import table_at
from bsjoin.spark.leaves import (
    CatalogTable,
    DeltaTable,
    Files,
    Leaf,
    is_cached,
    is_iceberg,
    is_metadata,
    leaves_of,
    state_of_files,
)
from bsjoin.spark.operators import asks_for_the_time, operators_of
from bsjoin.spark.replanned import Other, with_leaves
from bsjoin.spark.session import is_connect
from bsjoin.storage.lake_columns import Columns, names_in
from bsjoin.storage.lake_history import NO_SNAPSHOT
from bsjoin.storage.source_version import SourceVersion

_log = logging.getLogger("bsjoin")

_BETWEEN = "; "
_LOCAL = ("file:", "/")
_MODIFIED = re.compile(r"modification_time=(\d+)")
_ACCESSED = re.compile(r"access_time=\d+")
# Within this time a file of another file system may change twice and look the same.
_TICK_MS = 2_000


class _Found(NamedTuple):
    """The version of a leaf."""

    source: str
    version: str
    identity: str
    committed_at_us: int | None


def why_not_followed(df: DataFrame) -> str | None:
    """Why a DataFrame cannot be followed by the versions of what it reads; None if it can."""
    if is_connect(df.sparkSession):
        return "Spark Connect does not show what a DataFrame reads"
    try:
        if is_cached(df):
            return "Spark has cached its rows, or those of a part"
        if asks_for_the_time(df):
            return "it uses the current time, so its rows change without a commit"
        leaves = leaves_of(df)
        reasons = [reason for leaf in leaves if (reason := _why_not(leaf)) is not None]
    except compat.failures() as error:
        return f"Spark does not show what it reads ({type(error).__name__})"
    if reasons:
        return reasons[0]
    if followable(leaves):
        return None
    # A function may read anything.
    is_known = operators_of(df) is not None
    return "nothing that it reads can change" if is_known else "what it reads tells no version"


def followable(leaves: Sequence[Leaf]) -> list[Leaf]:
    """The leaves that have versions; the rows of the others stay."""
    return [leaf for leaf in leaves if not _stays(leaf)]


def _stays(leaf: Leaf) -> bool:
    return leaf.is_given or leaf.is_pinned


def _why_not(leaf: Leaf) -> str | None:
    if _stays(leaf):
        return None
    if isinstance(leaf, DeltaTable):
        return f"{leaf.name} is read by the path of a partition" if leaf.is_filtered else None
    if isinstance(leaf, Files):
        return None if leaf.can_be_listed_anew else f"the files of {leaf.name} are listed once"
    if isinstance(leaf, CatalogTable):
        table = leaf.newest()
        if table is None or is_metadata(table):
            return f"{leaf.name} tells no version"
        if is_iceberg(table):
            if (reference := leaf.reference()) is not None:
                return f"{leaf.name} is read at {reference}, and only its main branch is followed"
            others = sorted({*leaf.options} - {"path"})
            return f"{leaf.name} is read with the options {others}" if others else None
        return None if table.version() is not None else f"{leaf.name} tells no version"
    return f"{leaf.name} tells no version"


def version_of(leaves: Sequence[Leaf], selection: str) -> SourceVersion | None:
    """The version of all that is read; None if one is not known for certain at this moment.

    Raises:
        SourceError: a table is not there any more.
    """
    found = []
    for leaf in leaves:
        leaf.renew()
        state = leaf.state()
        one = _of_others(leaf) if state is None else _found(leaf, state)
        if one is None:
            return None
        found.append(one)
    return _together(found, selection)


def version_in(
    leaves: Sequence[Leaf], states: Sequence[Any], selection: str
) -> SourceVersion | None:
    """The version of all that is read, whose states are known; None if all of it stays.

    None also where a version is not that of what is read, as of a branch: its state alone is known.

    Raises:
        SourceError: a table is not there any more.
    """
    if any(_why_not(leaf) is not None for leaf in leaves):
        return None
    pairs = zip(leaves, states, strict=True)
    found = [_found(leaf, state) for leaf, state in pairs if not _stays(leaf)]
    return _together(found, selection) if found else None


def _together(found: Sequence[_Found], selection: str) -> SourceVersion:
    times = [one.committed_at_us for one in found if one.committed_at_us is not None]
    return SourceVersion(
        scrubbed(_BETWEEN.join(one.source for one in found), ()),
        _BETWEEN.join(one.version for one in found),
        max(times, default=None),
        _BETWEEN.join(one.identity for one in found),
        selection,
    )


def _found(leaf: Leaf, state: Sequence[Any]) -> _Found:
    if isinstance(leaf, DeltaTable):
        _, identity, number, time_ms = state
        if number < 0:
            raise SourceError(f"{leaf.name} is not there any more: its log is empty. Make it again")
        # One that is restored from a backup has its identifier and numbers: the time is another.
        return _Found(leaf.name, str(number), str(identity), time_ms * 1000)
    if isinstance(leaf, CatalogTable):
        _, _, identity, version, _ = state
        snapshot = leaf.snapshot()
        if snapshot is None:
            return _Found(leaf.name, str(version), str(identity), None)
        committed_us = snapshot.timestampMillis() * 1000
        return _Found(leaf.name, str(snapshot.snapshotId()), str(identity), committed_us)
    kind, options, files = state
    newest_us = max((one[2] for one in files), default=0) // 1000
    return _Found(_files_of(leaf), _version_of_files(files), _digest(kind, options), newest_us)


def _of_others(leaf: Leaf) -> _Found | None:
    """The version of a leaf that has no state by which it is known in other applications."""
    if isinstance(leaf, CatalogTable):
        table = leaf.newest()
        if table is None or is_metadata(table):
            return None
        identity, version = str(table.id() or ""), table.version()
        if is_iceberg(table) and table.table().currentSnapshot() is None:
            version = NO_SNAPSHOT
        return None if version is None else _Found(leaf.name, str(version), identity, None)
    if not isinstance(leaf, Files):
        return None
    relation = leaf.node.relation()
    identity = _digest(relation.fileFormat().getClass().getName(), str(relation.options()))
    uris, source = list(relation.location().inputFiles()), _files_of(leaf)
    if not uris:
        return _Found(source, "0 files", identity, None)
    if all(uri.startswith(_LOCAL) for uri in uris):
        files = state_of_files(uris)
        if files is None:  # one was removed at this moment
            return None
        newest_us = max(one[2] for one in files) // 1000
        return _Found(source, _version_of_files(files), identity, newest_us)
    none = leaf.node.output().take(0)
    listed = str(relation.location().listFiles(none, none).mkString("\n"))
    newest_ms = max(map(int, _MODIFIED.findall(listed)), default=0)
    version = f"{len(uris)} files {_digest(_ACCESSED.sub('', listed))}"
    if time.time() * 1000 - newest_ms < _TICK_MS:
        version += f" at {time.time_ns() // 1_000_000}"  # the next look takes it for another one
    return _Found(source, version, identity, newest_ms * 1000)


def _files_of(leaf: Leaf) -> str:
    if leaf.node.catalogTable().isDefined():
        return leaf.name
    return f"files in {leaf.node.relation().location().rootPaths().mkString(', ')}"


def _version_of_files(files: Sequence[Any]) -> str:
    return f"{len(files)} files {_digest(*map(str, files))}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def at_version(df: DataFrame, version: SourceVersion, known: Sequence[Columns]) -> DataFrame | None:
    """A DataFrame as of a version of all that it reads; None where that cannot be asked for.

    Raises:
        MismatchedColumnError: a column of a table has another type.
    """
    pinned: list[Other | None] = []
    try:
        leaves, numbers = leaves_of(df), version.version.split(_BETWEEN)
        if len(numbers) != len(followable(leaves)):
            return None
        for leaf, columns in zip(leaves, known, strict=True):
            other = None
            if not _stays(leaf):
                number = numbers.pop(0)
                found = table_at(df.sparkSession, leaf, number)
                if found is None:
                    return None
                other = found, names_in(columns, columns_at(leaf, number, found))
            pinned.append(other)
        return with_leaves(df, pinned)
    except compat.failures() as error:
        _log.debug("bsjoin: version %s is not read by its number: %s", version.version, error)
        return None
