"""A stream with a remote table that is refreshed: what its processes leave on their host."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bsjoin import BatchTable
from bsjoin.storage.copies import HostCopies


def test_refreshing_a_remote_table_does_not_fill_the_disks_of_the_hosts(
    spark: SparkSession, tmp_path: Path, runtime: str
) -> None:
    url = f"local://{tmp_path}/table"  # remote for bsjoin, and within reach of the workers
    rows = spark.range(3).toDF("k")
    table = BatchTable.build(rows.selectExpr("k", "0L AS v"), on="k", path=url)
    probes = tmp_path / "probes"
    rows.write.parquet(str(probes))
    stream = spark.readStream.schema(rows.schema).parquet(str(probes))
    query = table.join(stream).writeStream.format("memory").queryName(f"copies_{runtime}").start()
    for version in range(1, 4):
        query.processAllAvailable()
        found = spark.table(f"copies_{runtime}").groupBy("v").count().collect()
        assert {row["v"]: row["count"] for row in found} == dict.fromkeys(range(version), 3)
        assert len(copied(url)) == min(version, 2)
        if version < 3:
            assert table.refresh(rows.selectExpr("k", f"{version}L AS v")) == version + 1
            rows.write.mode("append").parquet(str(probes))
    query.stop()
    if runtime == "jvm":
        return
    owners = [owner.name for owner in (HostCopies(url).folder / "owners").iterdir()]
    parents = {name.split("-")[1].split(".")[0] for name in owners if name.startswith("parent-")}
    assert parents
    for pid in parents:
        assert b"daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()


def copied(url: str) -> set[str]:
    """The builds that this host has copies of."""
    return {copy.name.split("%2F")[1] for copy in HostCopies(url).folder.glob("copy-*")}
