"""Tables of Delta and Iceberg, and commits to them by this application and by others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

__all__ = ["ELSEWHERE", "Lake"]

ELSEWHERE = "elsewhere"
_numbers = itertools.count()
_PROPERTIES = {
    "delta": "delta.enableDeletionVectors = true, delta.columnMapping.mode = 'name'",
    "iceberg": "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read'",
}
# Delta refuses to make one with columns that are mapped, too.
_FEED = "delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true"


@dataclass
class Lake:
    """A format of tables.

    Args:
        spark: the session.
        format: delta or iceberg.
    """

    spark: SparkSession
    format: str
    name: str = field(default="", init=False)

    def create(
        self, select: str, partitions: str = "", name: str | None = None, *, feed: bool = False
    ) -> Lake:
        """Make a table of a query's rows; deletes leave its data files as they are.

        Args:
            select: the query.
            partitions: what it is partitioned by; nothing by default.
            name: its name; default None: one of its own.
            feed: whether a table of Delta tells what changes; default False.
        """
        own = f"t{next(_numbers)}"
        self.name = name or (own if self.format == "delta" else f"ice.db.{own}")
        told = feed and self.format == "delta"
        by = f"PARTITIONED BY ({partitions})" if partitions else ""
        self.spark.sql(
            f"CREATE TABLE {self.name} USING {self.format} {by} "
            f"TBLPROPERTIES ({_FEED if told else _PROPERTIES[self.format]}) AS {select}"
        )
        return self

    def read(self) -> DataFrame:
        """A new DataFrame of the table."""
        return self.spark.table(self.name)

    def commit(self, sql: str, *, elsewhere: bool = False) -> None:
        """Change the table: ``{t}`` is its name.

        Args:
            sql: the statement.
            elsewhere: as another application, of which this one's caches do not know.
        """
        name = self.name
        if elsewhere and self.format == "iceberg":
            name = f"{ELSEWHERE}.{name.partition('.')[2]}"
            self.spark.sql(f"REFRESH TABLE {name}")
        if elsewhere and self.format == "delta":
            assert self.spark._jvm is not None
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.sql(sql.format(t=name))

    def version(self) -> str:
        """The number of the newest version."""
        if self.format == "delta":
            history = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1")
            return str(history.collect()[0]["version"])
        refs = self.spark.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'")
        return str(refs.collect()[0][0])

    def at(self, version: str) -> DataFrame:
        """The table as it was."""
        return self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {version}")
