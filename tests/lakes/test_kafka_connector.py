"""Kafka with the versions of Spark that Delta and Iceberg need, each with its own connector."""

from __future__ import annotations

from pathlib import Path

import kafka_checks
import kafka_page_checks
import pyspark
import pytest
from checks_apart import each, passes
from servers import Kafka


@pytest.fixture
def _broker(kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = ".".join(pyspark.__version__.split(".")[:2])
    assert [*kafka_connector.glob(f"spark-sql-kafka-0-10_2.13-{spark}.*.jar")]
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))


@pytest.mark.long
@pytest.mark.usefixtures("_broker")
@each(kafka_checks.CHECKS)
def test_late_rows(check: str) -> None:
    passes("kafka_checks.py", check)


@pytest.mark.long
@pytest.mark.usefixtures("_broker")
@each(kafka_page_checks.REAL_TIME)
def test_real_time_mode(check: str) -> None:
    passes("kafka_checks.py", check, "real-time")
