"""Tables of Delta and Iceberg, and commits to them by this application and by others."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

LAKES = list(filter(None, os.environ.get("BSJOIN_LAKES", "").split(",")))
_SPARK = ".".join(pyspark.__version__.split(".")[:2])
PACKAGES = {
    "delta": [f"io.delta:delta-spark_{_SPARK}_2.13:4.4.0", "io.delta:delta-storage:4.4.0"],
    "iceberg": [f"org.apache.iceberg:iceberg-spark-runtime-{_SPARK}_2.13:1.12.0"],
}
ELSEWHERE = "elsewhere"
ROWS = "SELECT id AS k, concat('v', id) AS v, id % 3 AS part, id * 1.5 AS n FROM range(12)"
# Rows that come, change and go; a key that changes, one that repeats, one that is null; all rows.
COMMITS = {
    "insert": "INSERT INTO {t} VALUES (20, 'new', 1, 2.5), (21, null, null, null)",
    "update": "UPDATE {t} SET v = 'changed', part = part + 1 WHERE k IN (3, 20)",
    "delete": "DELETE FROM {t} WHERE k % 5 = 1",
    "merge": "MERGE INTO {t} USING (SELECT id, 'm' AS w FROM range(19, 23)) ON k = id "
    "WHEN MATCHED AND k < 21 THEN DELETE WHEN MATCHED THEN UPDATE SET v = w, part = 2 "
    "WHEN NOT MATCHED THEN INSERT (k, v, part, n) VALUES (id, w, 0, 9)",
    "key": "UPDATE {t} SET k = k + 100 WHERE k IN (2, 5)",
    "alike": "INSERT INTO {t} VALUES (3, 'twice', 5, 1), (null, 'no key', 1, 1)",
    "overwrite": "INSERT OVERWRITE {t} SELECT id, concat('o', id), id % 3, 0 FROM range(5, 9)",
}
_numbers = itertools.count()
_PROPERTIES = {
    "delta": "delta.enableDeletionVectors = true, delta.columnMapping.mode = 'name'",
    "iceberg": "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'",
}
# Delta refuses to make one with columns that are mapped, too.
_FEED = "delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true"


def quick(lake: str) -> pytest.MarkDecorator:
    """A test of each format, of which one is quick; the others are left to ``make lakes``."""
    every = [pytest.param(one, marks=[pytest.mark.long] * (one != lake)) for one in LAKES]
    return pytest.mark.parametrize("lake", every, indirect=True)


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
        self,
        select: str,
        partitions: str = "",
        name: str | None = None,
        *,
        feed: bool = False,
        properties: str = "",
    ) -> Lake:
        """Make a table of a query's rows; deletes leave its data files as they are.

        Args:
            select: the query.
            partitions: what it is partitioned by; nothing by default.
            name: its name; default None: one of its own.
            feed: whether a table of Delta tells what changes; default False.
            properties: more of them, or others; none by default.
        """
        own = f"t{next(_numbers)}"
        self.name = name or (own if self.format == "delta" else f"ice.db.{own}")
        told = feed and self.format == "delta"
        by = f"PARTITIONED BY ({partitions})" if partitions else ""
        kept = _FEED if told else _PROPERTIES[self.format]
        self.spark.sql(
            f"CREATE TABLE {self.name} USING {self.format} {by} "
            f"TBLPROPERTIES ({', '.join(filter(None, [kept, properties]))}) AS {select}"
        )
        return self

    def read(self) -> DataFrame:
        """A new DataFrame of the table."""
        return self.spark.table(self.name)

    def commit(self, sql: str, *, elsewhere: bool = False) -> None:
        """Change the table, ``{t}``, perhaps where this application's caches do not see it."""
        name = self.name
        if elsewhere and self.format == "iceberg":
            name = f"{ELSEWHERE}.{name.partition('.')[2]}"
            self.spark.sql(f"REFRESH TABLE {name}")
        if elsewhere and self.format == "delta":
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.sql(sql.format(t=name))

    def version(self) -> str:
        """The number of the newest version; from now on this application's cache knows it."""
        if self.format == "delta":
            history = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1")
            return str(history.collect()[0]["version"])
        self.spark.sql(f"REFRESH TABLE {self.name}")
        refs = self.spark.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'")
        return str(refs.collect()[0][0])

    def at(self, version: str) -> DataFrame:
        """The table as it was."""
        return self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {version}")

    def restore(self, version: str) -> None:
        """Make an older version the newest one."""
        if self.format == "delta":
            self.commit(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        else:
            short = self.name.partition(".")[2]
            self.commit(f"CALL ice.system.rollback_to_snapshot('{short}', {version})")
