"""Kafka: the documentation's example keeps every record, and progress tells what waits."""

from __future__ import annotations

from pathlib import Path

import kafka_checks
import pytest
from checks_apart import each, passes
from servers import Kafka


@each(kafka_checks.CHECKS)
def test_with_a_broker(
    check: str, kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))
    passes("kafka_checks.py", check)
