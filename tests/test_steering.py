"""The driver's side of partition rules: what fails there never stops a stream."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from bsjoin.partitioning import Collector, CycleStatistics, HotSpot, Router, added
from bsjoin.partitioning.published import Rules
from bsjoin.runtimes.steering import Steering
from bsjoin.storage import StorageLocation

OPTIONS = HotSpot(partitions=2, min_cycles=1, smoothing=0.0)


def cycle(steering: Steering, code: int, rows: int = 1_000) -> CycleStatistics:
    """A cycle that is all one key."""
    collector = Collector(Router(steering.rule), 100)
    collector.route(np.full(rows, code), np.random.default_rng(1).integers(1 << 62, size=rows))
    return collector.statistics()


def test_a_rule_is_published_and_gone_on_with(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path / "rules")
    steering = Steering(OPTIONS, 1, location)
    steering.observe(cycle(steering, 7))
    published = Rules(location).last()
    assert published is not None
    assert published.rule == steering.rule
    assert steering.rule.version >= 1  # a slow machine may skip a number
    again = Steering(HotSpot(partitions=2, store=tmp_path / "rules"), 1)
    assert again.rule == steering.rule


@pytest.mark.parametrize("how", ["raises", "gives up"])
def test_a_rule_that_could_not_be_published_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    location = StorageLocation.of(tmp_path / "rules")
    steering = Steering(OPTIONS, 1, location)

    def publish(*_: object) -> None:
        if how == "raises":
            raise OSError("no space left")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "bsjoin"):
        patch.setattr(Rules, "publish", publish)
        steering.observe(cycle(steering, 7))
    assert steering.rule.version == 0  # as the workers have it
    assert ("no space left" in caplog.text) == (how == "raises")
    steering.observe(cycle(steering, 7))
    assert steering.rule.version >= 1
    published = Rules(location).last()
    assert published is not None
    assert published.rule == steering.rule


def test_workers_hear_how_many_keys_to_sample(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path / "rules")
    steering = Steering(HotSpot(partitions=2, sample=1_000), 2, location)
    assert steering.capacity == 500
    even = np.random.default_rng(2).integers(-(2**62), 2**62, size=10_000)
    parts = []
    for task in range(10):  # five times as many tasks as there are cores
        collector = Collector(Router(steering.rule), 500, seed=task)
        collector.route(even[task::10], even[task::10])
        parts.append(collector.statistics())
    steering.observe(added(parts))
    published = Rules(location).last()
    assert published is not None
    assert (published.capacity, steering.capacity) == (100, 100)
    assert published.rule.version >= 1
    assert published.rule == steering.rule


def test_another_number_of_partitions_is_a_rule_made_from_what_was_seen(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path / "rules")
    steering = Steering(OPTIONS, 1, location)
    steering.observe(cycle(steering, 7))
    before = steering.rule
    steering.resize(2)
    assert steering.rule == before  # it is the number there is
    steering.resize(5)
    assert (steering.rule.partitions, steering.rule.version > before.version) == (5, True)
    begun = Steering(HotSpot(partitions=5, min_cycles=1, smoothing=0.0), 1)
    begun.observe(cycle(begun, 7))
    assert cycle(steering, 7).skew == cycle(begun, 7).skew
    published = Rules(location).last()
    assert published is not None
    assert published.rule == steering.rule
    alone = Steering(OPTIONS, 1)
    alone.resize(3)
    assert (alone.rule.partitions, alone.rule.version) == (3, 1)


def test_a_number_that_cannot_be_remembered_holds_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steering = Steering(OPTIONS, 1, StorageLocation.of(tmp_path / "rules"))

    def publish(*_: object) -> None:
        raise OSError("no space left")

    with caplog.at_level(logging.WARNING, "bsjoin"):
        monkeypatch.setattr(Rules, "publish", publish)
        steering.resize(3)
    assert "no space left" in caplog.text
    assert steering.rule.partitions == 3
