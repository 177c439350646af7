"""Kafka: the documentation's example keeps every record, and progress tells what waits."""

from __future__ import annotations

from pathlib import Path

import kafka_checks
import pytest
from checks_apart import each, passes
from servers import Kafka


@each(kafka_checks.EXAMPLES)
def test_the_example_of_the_documentation_keeps_every_record(
    check: str, kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))
    passes("kafka_checks.py", check)


def test_progress_tells_what_arrives_and_what_waits(
    kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))
    passes("kafka_checks.py", "what_arrives_and_what_waits")
