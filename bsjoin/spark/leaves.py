"""The sources of a classic DataFrame: the leaves of its plan, typed.

Each says what it reads, in which state that is now, and whether Spark's own join would read it anew
in each micro-batch of a stream. The state of a table is its identifier and its version, where it
has them; that of files is their names, sizes and times. Of everything else no state is known.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame

from bsjoin._secrets import scrubbed
from bsjoin.spark import compat

State = list[Any]

_SOURCES = "org.apache.spark.sql.execution.datasources."
_LISTED_ONCE = f"{_SOURCES}InMemoryFileIndex"
_PARTITIONS = f"{_SOURCES}CatalogFileIndex"
_SINK_LOG = "MetadataLogFileIndex"
_RECOGNISED = {
    f"{_SOURCES}parquet.ParquetFileFormat",
    f"{_SOURCES}orc.OrcFileFormat",
}
_DELTA = "org.apache.spark.sql.delta.files.TahoeLogFileIndex"
_ICEBERG = "org.apache.iceberg.spark.source.SparkTable"
# What Iceberg takes for a part of a table behind its name.
_REFERENCE = re.compile(r"(branch|tag)_.*|(snapshot_id|at_timestamp)_\d+", re.IGNORECASE)
_WAP_BRANCH = "spark.wap.branch"
_GIVEN = {"LocalRelation", "OneRowRelation", "Range"}
# A file system counts time in ticks; a file may change twice within one.
_TICK_NS = 20_000_000


@dataclass(frozen=True)
class Leaf:
    """A leaf of which nothing is known but its class.

    Args:
        node: the leaf, in the JVM.
        plan: its class.
        spark: the session, in the JVM.
    """

    node: Any
    plan: str
    spark: Any

    @property
    def name(self) -> str:
        """The name of what it reads, for a message."""
        return self.plan

    @property
    def is_given(self) -> bool:
        """Whether the plan itself has the rows."""
        return self.plan in _GIVEN

    @property
    def is_read_anew(self) -> bool:
        """Whether each micro-batch of Spark's own join gets what is there by then."""
        return False

    @property
    def is_pinned(self) -> bool:
        """Whether one version of a table was asked for, which stays."""
        return False

    def renew(self) -> None:
        """Forget what was listed or cached, so that what others have written is read next."""
        self.node.refresh()

    def state(self) -> State | None:
        """Return the state of what is there now; None where it cannot be known for certain."""
        # What was given is in the description of the plan; but not the rows of a LocalRelation.
        return [] if self.plan in _GIVEN - {"LocalRelation"} else None

    def reads(self) -> State | None:
        """Return what tells it from leaves that read something else, whatever is there now.

        Of what stays that is its state. None where nothing does for certain.
        """
        return self.state()


class _HiveTable(Leaf):
    """A table in the format of Hive, whose files Spark's catalogue caches."""

    @property
    def name(self) -> str:
        return f"the table {self.node.tableMeta().identifier().unquotedString()}"

    @property
    def is_read_anew(self) -> bool:
        return True

    def renew(self) -> None:
        self.spark.sessionState().catalog().refreshTable(self.node.tableMeta().identifier())


class _Relation(Leaf):
    """A source of Spark's first interface that decides itself what it reads: JDBC, say."""

    @property
    def name(self) -> str:
        relation = self.node.relation()
        # The text of others may hold anything.
        kind = relation.getClass().getSimpleName()
        return str(relation) if kind == "JDBCRelation" else kind

    @property
    def is_read_anew(self) -> bool:
        return True

    def reads(self) -> State | None:
        relation = self.node.relation()
        if relation.getClass().getSimpleName() != "JDBCRelation":
            return None
        pairs = listed(relation.jdbcOptions().parameters())
        given = {str(pair._1()).lower(): scrubbed(str(pair._2()), ()) for pair in pairs}
        return [str(relation), sorted(item for item in given.items() if item[0] != "password")]


class _Files(Leaf):
    """Files, alone or as a table of Spark's catalogue."""

    @property
    def name(self) -> str:
        table = self.node.catalogTable()
        if table.isDefined():
            return f"the table {table.get().identifier().unquotedString()}"
        return "files"

    @property
    def is_read_anew(self) -> bool:
        # The files of a folder are listed once; what this application writes into a table is seen.
        return self.node.catalogTable().isDefined() or not (
            self._index == _LISTED_ONCE or self._index.endswith(_SINK_LOG)
        )

    @property
    def can_be_listed_anew(self) -> bool:
        """Whether its files are those of folders, or of a catalogue's partitions."""
        return self._index in (_LISTED_ONCE, _PARTITIONS)

    @property
    def _index(self) -> str:
        return str(self.node.relation().location().getClass().getName())

    def state(self) -> State | None:
        relation = self.node.relation()
        kind = relation.fileFormat().getClass().getName()
        if self._index != _LISTED_ONCE or kind not in _RECOGNISED:
            return None
        found = state_of_files(relation.location().inputFiles())
        return found and [kind, str(relation.options()), found]

    def reads(self) -> State | None:
        relation = self.node.relation()
        roots = str(relation.location().rootPaths().mkString("\n"))
        kind = relation.fileFormat().getClass().getName()
        return [self.name, roots, kind, str(relation.options())]


class _DeltaTable(Leaf):
    """A Delta table: a commit is a version, though the files may stay as they are."""

    @property
    def name(self) -> str:
        return f"the Delta table {self.index.path()}"

    @property
    def is_read_anew(self) -> bool:
        return not self.is_pinned

    @property
    def is_pinned(self) -> bool:
        return bool(self.index.isTimeTravelQuery())

    @property
    def is_filtered(self) -> bool:
        """Whether its path is that of a partition."""
        return not self.index.partitionFilters().isEmpty()

    @property
    def index(self) -> Any:
        """Its log, in the JVM."""
        return self.node.relation().location()

    def snapshot(self) -> Any:
        """The version that is newest now, or was asked for, in the JVM."""
        try:
            return self.index.getSnapshot()
        except compat.failures():
            if self.is_pinned:
                raise
        # The columns are others than when the plan was made, which Delta refuses to read by it.
        place = str(self.index.deltaLog().dataPath())
        made = self.spark.read().format("delta").load(place).queryExecution().analyzed()
        return made.collectLeaves().head().relation().location().getSnapshot()

    def state(self) -> State | None:
        if self.is_filtered:
            return None
        snapshot = self.snapshot()
        # A copy of a table has its identifier: so the path; and one that is restored from a backup
        # the numbers of its versions: so the time.
        place = str(self.index.deltaLog().dataPath())
        return [place, snapshot.metadata().id(), snapshot.version(), snapshot.timestamp()]

    def reads(self) -> State | None:
        if self.is_pinned or self.is_filtered:
            return self.state()
        return [str(self.index.deltaLog().dataPath())]


class _CatalogTable(Leaf):
    """A table of Spark's second interface: Iceberg, a catalogue of JDBC, a Python data source."""

    @property
    def name(self) -> str:
        return f"the table {self.node.table().name()}"

    @property
    def is_read_anew(self) -> bool:
        if _is_a(self.node.table(), f"{_SOURCES}v2.FileTable"):
            return False  # listed once
        return not self.is_pinned

    @property
    def is_pinned(self) -> bool:
        return bool(self.node.timeTravelSpec().isDefined())

    @property
    def options(self) -> dict[str, str]:
        """What it is read with."""
        return dict(self.node.options().asCaseSensitiveMap())

    def newest(self) -> Any:
        """The table as its catalogue has it now, in the JVM; None if it is of no catalogue."""
        catalog, identifier = self.node.catalog(), self.node.identifier()
        if not (catalog.isDefined() and identifier.isDefined()):
            return None
        return catalog.get().loadTable(identifier.get())

    def reference(self) -> str | None:
        """The branch, tag or snapshot of a table of Iceberg that is read; None for its newest."""
        if not is_iceberg(self.node.table()) or not self.node.identifier().isDefined():
            return None
        identifier = self.node.identifier().get()
        if identifier.getClass().getSimpleName() == "PathIdentifier":
            found = str(identifier.location()).partition("#")[2]
        else:
            name, table = str(identifier.name()), str(self.node.table().table().name())
            is_table = table.rpartition(".")[2] == name
            found = name if not is_table and _REFERENCE.fullmatch(name) else ""
        return found or self._wap_branch()

    def _wap_branch(self) -> str | None:
        settings = self.spark.sessionState().conf()
        return str(settings.getConfString(_WAP_BRANCH, "")) or None

    def snapshot(self) -> Any:
        """The newest snapshot of a table of Iceberg, in the JVM; None without, and of others."""
        table = self.newest()
        return table.table().currentSnapshot() if is_iceberg(table) else None

    def renew(self) -> None:
        # What other applications have committed stays unseen as long as a catalogue caches a table.
        catalog, identifier = self.node.catalog(), self.node.identifier()
        if catalog.isDefined() and identifier.isDefined():
            catalog.get().invalidateTable(identifier.get())

    def state(self) -> State | None:
        newest = self.newest()
        if newest is None:
            return None
        # What is asked for by a version or a time stays as it was found, even if that is a branch.
        table = self.node.table() if self.is_pinned else newest
        if table.id() is None or table.version() is None or is_metadata(table):
            return None
        if is_iceberg(table) and self._wap_branch() is not None:
            return None  # its version may be that of another branch
        catalog = self.node.catalog().get().name()
        return [catalog, table.name(), table.id(), table.version(), sorted(self.options.items())]

    def reads(self) -> State | None:
        if self.is_pinned:
            return self.state()
        catalog = self.node.catalog()
        name = catalog.get().name() if catalog.isDefined() else ""
        identifier = self.node.identifier()
        place = str(identifier.get()) if identifier.isDefined() else ""
        return [name, place, self.node.table().name(), sorted(self.options.items())]


# The kinds that have versions.
CatalogTable = _CatalogTable
DeltaTable = _DeltaTable
Files = _Files


def is_iceberg(table: Any) -> bool:
    """Whether a table of a catalogue is one of Iceberg."""
    return bool(table.getClass().getName() == _ICEBERG)


def is_metadata(table: Any) -> bool:
    """Whether it is a table about a table: that has the version of the other, not its rows."""
    return is_iceberg(table) and table.table().getClass().getSimpleName() != "BaseTable"


def leaves_of(df: DataFrame) -> list[Leaf]:
    """The leaves of the analyzed plan, then those of its subqueries."""
    plan, spark = compat.analyzed(df), compat.java_session(df.sparkSession)
    plans = [plan, *listed(plan.subqueriesAll())]
    return [_typed(leaf, spark) for one in plans for leaf in listed(one.collectLeaves())]


def is_cached(df: DataFrame) -> bool:
    """Whether Spark keeps rows of it, or of a part: those are read, whatever is there now."""
    plan = compat.with_cached_data(df)
    plans = [plan, *listed(plan.subqueriesAll())]
    leaves = [leaf for one in plans for leaf in listed(one.collectLeaves())]
    return any(leaf.getClass().getSimpleName() == "InMemoryRelation" for leaf in leaves)


def state_of_files(uris: Iterable[str]) -> State | None:
    """Names, sizes, times and numbers of local files; None for others, and for none at all."""
    found, newest_ns = [], 0
    for uri in sorted(uris):
        parsed = urlparse(uri)
        if parsed.scheme not in ("", "file"):
            return None
        try:
            stat = Path(unquote(parsed.path)).stat()
        except OSError:
            return None
        # The time of modification can be set; that of the last change of any kind cannot.
        found.append([uri, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
        newest_ns = max(newest_ns, stat.st_ctime_ns)
    left_ns = newest_ns + _TICK_NS - time.time_ns()
    if 0 < left_ns <= _TICK_NS:
        time.sleep(left_ns / 1e9)
    return found or None


def _typed(node: Any, spark: Any) -> Leaf:
    plan = str(node.getClass().getSimpleName())
    kind = {"DataSourceV2Relation": _CatalogTable, "HiveTableRelation": _HiveTable}.get(plan, Leaf)
    if plan == "LogicalRelation":
        relation, kind = node.relation(), _Relation
        if _is_a(relation, f"{_SOURCES}HadoopFsRelation"):
            is_delta = relation.location().getClass().getName() == _DELTA
            kind = _DeltaTable if is_delta else _Files
    return kind(node, plan, spark)


def listed(sequence: Any) -> list[Any]:
    """A sequence of Scala as a list."""
    iterator, found = sequence.iterator(), []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _is_a(thing: Any, name: str) -> bool:
    """Whether an object of the JVM is of a class, or of one that extends it."""
    kind = thing.getClass()
    while kind is not None and kind.getName() != name:
        kind = kind.getSuperclass()
    return kind is not None
