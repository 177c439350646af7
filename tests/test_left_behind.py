"""What tests leave behind is noticed, and their order is that of the seed."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from left_behind import State
from pyspark.sql import SparkSession
from shuffled import TESTS, shuffle


def test_what_is_left_in_the_process_is_told_and_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "a")
    before = State.of(None)
    assert before.differences(State.of(None)) == []
    os.environ["LEFT"] = "b"
    del os.environ["KEPT"]
    os.environ["PYTEST_CURRENT_TEST"] = "another"
    os.chdir(tmp_path)
    assert before.differences(State.of(None)) == [
        "the environment variable KEPT, which was 'a' and is None",
        "the environment variable LEFT, which was None and is 'b'",
        f"the working folder {tmp_path}",
    ]
    before.restore()
    assert before.differences(State.of(None)) == []
    assert "LEFT" not in os.environ


def test_what_is_left_in_the_session_is_told_and_undone(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = State.of(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.conf.set("spark.bsjoin.runtime", "python")
    later = State.of(spark, before)
    other = spark.newSession()
    other._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(other._jsparkSession)
    spark.sql(f"CREATE DATABASE left_behind LOCATION '{tmp_path}/database'")
    spark.sql("USE left_behind")
    found = before.differences(later)
    assert [text.split(",")[0] for text in found] == [
        "the setting spark.bsjoin.runtime",
        "the setting spark.sql.shuffle.partitions",
        "another active session",
        "another database",
    ]
    before.restore()
    spark.sql("DROP DATABASE left_behind")
    assert before.differences(State.of(spark, before)) == []
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert SparkSession.getActiveSession() is not None


def test_the_order_is_that_of_the_seed() -> None:
    places = [f"{folder}/test_{name}.py" for folder in ("sources", "index") for name in "abcdef"]
    written: list[Any] = [
        SimpleNamespace(path=TESTS / place, nodeid=f"{place}::test_{number}")
        for place in places
        for number in range(5)
    ]

    def ordered(order: str, seed: str) -> list[str]:
        items = list(written)
        shuffle(items, order, seed)
        return [item.nodeid for item in items]

    def files(ids: list[str]) -> list[str]:
        return list(dict.fromkeys(one.partition("::")[0] for one in ids))

    assert ordered("written", "1") == [item.nodeid for item in written]
    for order in ("files", "tests"):
        first = ordered(order, "1")
        assert first == ordered(order, "1")
        assert sorted(first) == sorted(item.nodeid for item in written)
        assert files(first) != files(ordered(order, "2"))
        # Tests of a file stay together, and so do the files of a folder with servers.
        ends = [one.partition("::")[0] for one in first]
        assert len([1 for a, b in itertools.pairwise(ends) if a != b]) == len(places) - 1
        inside = [place for place, file in enumerate(files(first)) if file.startswith("sources")]
        assert inside == list(range(inside[0], inside[0] + 6))
    own = [one for one in ordered("tests", "1") if one.startswith("index/test_a")]
    assert own != sorted(own)
    assert [one for one in ordered("files", "1") if one.startswith("index/test_a")] == sorted(own)
