"""Kafka with the versions of Spark that Delta and Iceberg need, each with its own connector."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from checks_apart import each, passes
from servers import Kafka


@pytest.mark.long
@each(["late_rows"])
def test_late_rows(
    kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    spark = ".".join(pyspark.__version__.split(".")[:2])
    assert [*kafka_connector.glob(f"spark-sql-kafka-0-10_2.13-{spark}.*.jar")]
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))
    passes("kafka_checks.py", check)
