"""The program of the page on lakes, as a process."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
from lake_samples import LAKES, PACKAGES
from programs import ROOT, program
from pyspark.sql import SparkSession
from spark_samples import rows

PAGE = ROOT / "docs" / "how-to" / "lakes.md"
_SPARK = ".".join(pyspark.__version__.split(".")[:2])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_program_of_the_page_joins_and_follows(spark: SparkSession, tmp_path: Path) -> None:
    code = page()
    warehouse = str(spark.conf.get("spark.sql.catalog.ice.warehouse", ""))
    for there, here in {
        '"spark.jars.packages"': '"not.spark.jars.packages"',  # Maven has fetched them
        "s3a://bucket/ice": warehouse,
        "s3a://bucket/": f"{tmp_path}/",
    }.items():
        assert there in code or here == warehouse == ""
        code = code.replace(there, here)

    def of_delta(name: str, sql: str) -> None:
        df = spark.sql(f"SELECT * FROM VALUES {sql}")
        df.write.format("delta").mode("append").save(str(tmp_path / name))

    def enriched() -> list[tuple[Any, ...]]:
        there = (tmp_path / "enriched" / "_delta_log" / f"{0:020}.json").exists()
        return rows(spark.read.format("delta").load(str(tmp_path / "enriched"))) if there else []

    of_delta("customers", "(1, 'Ada'), (2, 'Ben') AS t(customer_id, name)")
    of_delta("orders", "(100, 1), (101, 7) AS t(order_id, customer_id)")
    if "iceberg" in LAKES:
        for name, sql in {
            "countries": "('AT', 'Austria'), ('PT', 'Portugal') AS t(country, full_name)",
            "arrivals": "(1, 'PT'), (2, 'XX') AS t(arrival, country)",
        }.items():
            select = f"SELECT * FROM VALUES {sql}"
            spark.sql(f"CREATE TABLE ice.shop.{name} USING iceberg AS {select}")
    first = (100, 1, "Ada")
    with program(code, {"spark.jars": str(spark.conf.get("spark.jars"))}, tmp_path) as wait:
        wait(enriched, [first])
        if "iceberg" in LAKES:
            wait(lambda: arrived(spark), [(1, "PT", "Portugal")])
            spark.sql("INSERT INTO ice.shop.arrivals VALUES (3, 'AT')")
            wait(lambda: arrived(spark), [(1, "PT", "Portugal"), (3, "AT", "Austria")])
        # The commits of another application are followed.
        of_delta("customers", "(7, 'Cleo') AS t(customer_id, name)")
        numbers = itertools.count(200)

        def is_followed() -> bool:
            of_delta("orders", f"({next(numbers)}, 7), (103, 2) AS t(order_id, customer_id)")
            time.sleep(1.0)
            return (7, "Cleo") in [one[1:] for one in enriched()]

        wait(is_followed, True)
    assert {one[1:] for one in enriched()} == {(1, "Ada"), (2, "Ben"), (7, "Cleo")}
    assert [one for one in enriched() if one[1] == 1] == [first]


def page() -> str:
    """The program of the page; where Spark has Delta alone, without what is Iceberg's."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text("utf-8"))
    (code,) = [block for block in blocks if "spark.jars.packages" in block]
    if "iceberg" not in LAKES:
        code = re.sub(r"(?m)^.*(?:org\.apache\.iceberg|sql\.catalog\.ice).*\n", "", code)
        code = re.sub(r"(?ms)^# A table of Iceberg.*?\n\n", "", code)
        code = code.replace("delta-spark_4.1", f"delta-spark_{_SPARK}")
        assert not re.search(r"(?i)\bice|iceberg", code)
    for package in (PACKAGES[name][0] for name in LAKES):
        assert package in code, package
    return code


def arrived(spark: SparkSession) -> list[tuple[Any, ...]]:
    """What has come of Iceberg."""
    if not spark.catalog.tableExists("ice.shop.arrivals_enriched"):
        return []
    spark.sql("REFRESH TABLE ice.shop.arrivals_enriched")
    return rows(spark.table("ice.shop.arrivals_enriched").select("arrival", "country", "full_name"))
