"""Programs as processes: that of the page on a whole job, and the one that follows a table."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from lake_samples import Lake
from programs import ROOT, environment, program
from pyspark.sql import SparkSession
from servers import Kafka, free_port

from bsjoin.kafka import WAITED_SINCE
from examples import _kafka

PAGE = ROOT / "docs" / "how-to" / "whole-job.md"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_orders_find_their_customers_and_the_figures_are_there(
    spark: SparkSession, kafka: Kafka, kafka_connector: Path, tmp_path: Path
) -> None:
    customers = Lake(spark, "delta").create(
        "SELECT * FROM VALUES (1L, 'Ada', 'x'), (2L, 'Ben', 'y') AS t(customer_id, name, more)",
        feed=True,
    )
    (place,) = spark.sql(f"DESCRIBE DETAIL {customers.name}").select("location").collect()
    _kafka.create(kafka.url, dict.fromkeys(("orders", "enriched", "retry", "dead-letters"), 1))
    jars = [*str(spark.conf.get("spark.jars")).split(","), *map(str, kafka_connector.glob("*.jar"))]
    code, settings = page()
    for there, here in {
        "s3a://bucket/customers": place[0],
        "s3://bucket/bsjoin/": f"{tmp_path}/",
        "s3a://bucket/checkpoints/": f"{tmp_path}/",
        "broker:9092": kafka.url,
        '"30 seconds"': '"1 second"',
    }.items():
        assert there in code
        code = code.replace(there, here)
    port = free_port()
    own = {"spark.jars": ",".join(jars), "spark.ui.enabled": "true", "spark.ui.port": str(port)}

    def send(*values: str) -> None:
        records = [{"key": "k", "value": one, "headers": [("shop", b"web")]} for one in values]
        _kafka.send(kafka.url, "orders", records.__getitem__, 1000, len(values) / 1000)

    with program(code, settings | own, tmp_path) as wait:
        typed = order(103, 1).replace("103", '"a"')
        send(order(100, 1), order(101, 7), "no JSON", typed)
        wait(lambda: sorted(enriched(kafka)), [100])
        late = {order(101, 7).encode(), b"no JSON", typed.encode()}
        wait(lambda: {one.value() for one in _kafka.read(kafka.url, "retry")}, late)
        # Another application changes the table.
        customers.commit(
            "MERGE INTO {t} USING (VALUES (1L, 'Ada L.'), (7L, 'Cleo') AS s(id, new)) "
            "ON customer_id = id WHEN MATCHED THEN UPDATE SET name = new "
            "WHEN NOT MATCHED THEN INSERT (customer_id, name) VALUES (id, new)"
        )
        wait(lambda: sorted(enriched(kafka)), [100, 101])
        send(order(102, 1))
        wait(lambda: sorted(enriched(kafka)), [100, 101, 102])
        names = {number: value["name"] for number, (value, _) in enriched(kafka).items()}
        assert names == {100: "Ada", 101: "Cleo", 102: "Ada L."}
        headers = {number: {*found} for number, (_, found) in enriched(kafka).items()}
        assert headers == {100: {"shop"}, 101: {"shop", WAITED_SINCE}, 102: {"shop"}}
        assert _kafka.count(kafka.url, "dead-letters") == 0

        for name, value in {
            "bsjoin_kafka_routed_rows_total__query_retry__topic_enriched__outcome_recovered": 1.0,
            "bsjoin_kafka_routed_rows_total__query_orders__topic_enriched__outcome_found": 2.0,
            "bsjoin_kafka_waiting_rows__query_retry__topic_enriched": 2.0,
            "bsjoin_table_applied_versions_total__query_orders": 1.0,
            "bsjoin_table_read_whole_versions_total__query_orders": 0.0,
        }.items():
            wait(lambda name=name: metrics(port, name), [value])
        (lag,) = metrics(port, "bsjoin_table_lag_seconds__query_orders")
        assert 0 < lag < 60


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_example_follows_each_commit_by_a_layer(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "follow.py"), "--out", str(tmp_path / "out")]
    command += ["--products", "2000", "--commits", "2"]
    done = subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=800,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert len(re.findall(r"after it: layers [1-9]\d*, [\d,]+ bytes", told)) == 2, told
    own = re.findall(r"(?:own|compacted): layers (\d+), ", told)
    assert (len(own), own[0] > "0", own[-1]) == (2, True, "0"), told
    assert (told.count("  right"), "WRONG" in told) == (12, False), told


def page() -> tuple[str, dict[str, str]]:
    """The program of the page, and the settings of its command."""
    text = PAGE.read_text("utf-8")
    (code,) = re.findall(r'(?ms)^```python title="app.py"\n(.*?)^```$', text)
    command, here = re.findall(r"(?ms)^(spark-submit .*?)^```$", text)
    pairs = list(itertools.pairwise(shlex.split(command)))
    (packages,) = (after.split(",") for before, after in pairs if before == "--packages")
    assert {"io.delta:delta-spark_4.2_2.13:4.4.0", _kafka._CONNECTOR[0]} < {*packages}
    given = [after.partition("=") for before, after in pairs if before == "--conf"]
    settings = {name: value for name, _, value in given if not name.startswith("spark.pyspark.")}
    assert len(settings) == 5, settings
    of_one_machine = itertools.pairwise(shlex.split(here))
    assert {after for before, after in of_one_machine if before == "--conf"} == {
        f"{name}={value}" for name, value in settings.items()
    }
    return code, settings


def order(number: int, customer: int) -> str:
    return json.dumps({"order_id": number, "customer_id": customer, "amount": 1.5})


def enriched(kafka: Kafka) -> dict[int, tuple[dict[str, Any], list[str]]]:
    """What has come by the number of the order: the value, and the names of its headers."""
    found = {}
    for one in _kafka.read(kafka.url, "enriched"):
        value = json.loads(one.value())
        assert value["order_id"] not in found
        found[value["order_id"]] = value, [name for name, _ in one.headers() or []]
    return found


def metrics(port: int, name: str) -> list[float]:
    """The values of a metric, by the beginning of what Spark's servlet calls it."""
    with urlopen(f"http://127.0.0.1:{port}/metrics/prometheus/") as answer:
        lines = answer.read().decode().splitlines()
    begin = f"metrics_orders_driver_bsjoin__{name}"
    return [
        float(one.rpartition(" ")[2])
        for one in lines
        if one.startswith(begin) and one.partition("{")[0].endswith("_Value")
    ]
