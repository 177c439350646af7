"""Kafka: examples of the documentation keep every record, and the program of examples/ ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import kafka_checks
import kafka_cluster_checks
import kafka_route_kills
import pytest
from cache_samples import until
from checks_apart import TESTS, each, environment, passes
from servers import Kafka

_LIMIT_S, _ENDS_S = 600, 60  # of the example, on a busy machine


@pytest.fixture
def _broker(kafka: Kafka, kafka_connector: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", kafka.url)
    monkeypatch.setenv("KAFKA_CONNECTOR", str(kafka_connector))


@pytest.mark.usefixtures("_broker")
@each(kafka_checks.CHECKS)
def test_with_a_broker(check: str) -> None:
    passes("kafka_checks.py", check)


@pytest.mark.long
@pytest.mark.usefixtures("_broker")
@each(kafka_checks.LONG)
def test_with_faults_of_a_broker_and_other_records(check: str) -> None:
    passes("kafka_checks.py", check, "long")


@pytest.mark.long
@pytest.mark.usefixtures("_broker")
@each(kafka_cluster_checks.CHECKS)
def test_with_an_executor_of_its_own(check: str) -> None:
    passes("kafka_cluster_checks.py", check)


@pytest.mark.long
@pytest.mark.timeout(_LIMIT_S)
@pytest.mark.parametrize("mode", ["micro-batches", "real-time mode"])
def test_late_rows_of_a_killed_job_are_each_in_their_place(
    kafka: Kafka, kafka_connector: Path, tmp_path: Path, mode: str
) -> None:
    """What is made of a record once is made of it again; docs/limits.md has what that leaves."""
    real_time = mode == "real-time mode"
    found = kafka_route_kills.run(
        kafka.url, kafka_connector, tmp_path, kills=3, real_time=real_time
    )
    assert not found.lost()
    assert found.twice("asked") > 0
    assert found.differing("retry") == 0
    assert real_time or found.differing("asked") == 0
    places = found.places()
    assert len(places) == len(found.of("asked"))
    for key, where in places.items():
        customer = int(key.split()[0])
        if customer < kafka_route_kills.KNOWN:
            assert where == {"enriched"}, key
        if customer == kafka_route_kills.KEYS - 1:
            assert where == {"dead"}, key
    named = {
        (int(key.split()[0]), *value.decode().split()[1::2])
        for made in found.made.values()
        for place, key, value, _ in made
        if place == "enriched"
    }
    assert all(str(customer) == name for customer, name, _ in named), named
    assert {issue for *_, issue in named} == {"1", "2", "3", "4"}


@pytest.mark.long
def test_without_maven_programs_and_tests_say_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    said = "Maven is not here, to fetch {}: install it (Debian: maven)"
    program = example("--out", str(tmp_path / "out"))
    printed = program.communicate(timeout=_ENDS_S)[0]
    assert program.returncode == 1, printed
    assert printed.splitlines()[-1] == said.format("Spark's connector for Kafka")
    assert "Traceback" not in printed

    one = "tests/test_kafka.py::test_with_a_broker"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", one],
        cwd=TESTS.parent, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line.partition(": ")[2] for line in skipped] == [said.format("Kafka")], done.stdout
    assert "left out: tests/lakes" in done.stdout


def example(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TESTS.parent / "examples" / "kafka.py"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"},  # starts sooner
    )


@pytest.mark.long
@pytest.mark.timeout(_LIMIT_S + 60)
@pytest.mark.parametrize("mode", ["micro-batches", "real-time mode"])
def test_the_example_ends_with_right_answers(
    kafka_connector: Path, tmp_path: Path, mode: str
) -> None:
    more = ["--real-time"] * (mode == "real-time mode")
    program = example("--out", str(tmp_path / "out"), "--seconds", "1", "--rate", "100", *more)
    try:
        printed = program.communicate(timeout=_LIMIT_S)[0]
    finally:
        program.terminate()
        program.wait(_ENDS_S)
    assert program.returncode == 0, printed
    assert f"100 orders, 100 a second, in {mode}" in printed
    assert printed.count("  right") == 7, printed
    assert "WRONG" not in printed, printed


@pytest.mark.long
@pytest.mark.timeout(_LIMIT_S)
def test_the_example_ends_its_broker_at_sigterm(kafka_connector: Path, tmp_path: Path) -> None:
    program = example("--out", str(tmp_path / "out"))
    try:
        brokers = until(lambda: brokers_of(program.pid), "a broker", _ENDS_S)
        time.sleep(0.5)  # it waits until the broker is ready
    finally:
        program.terminate()
        printed = program.communicate(timeout=_ENDS_S)[0]
    assert program.returncode == 128 + signal.SIGTERM, printed
    assert "Traceback" not in printed
    assert not any(Path("/proc", pid).exists() for pid in brokers)


def brokers_of(parent: int) -> list[str]:
    """The processes that a program has started and that have become a broker."""
    started = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [pid for pid in started if b"kafka.Kafka" in Path("/proc", pid, "cmdline").read_bytes()]
