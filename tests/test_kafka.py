"""The Kafka example of the documentation keeps every record, good and bad ones."""

from __future__ import annotations

from pathlib import Path

import kafka_checks
import pytest
from checks_apart import passes
from servers import Kafka


@pytest.mark.parametrize("check", kafka_checks.CHECKS)
def test_the_example_of_the_documentation_keeps_every_record(
    check: str, kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))
    passes("kafka_checks.py", check)
