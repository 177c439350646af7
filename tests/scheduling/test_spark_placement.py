"""The options of a placement: what is refused, and where prices come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduling import LBACE, OERA, Price, Resources, StStream, errors
from scheduling.spark import Placement, PlacementResult, Tier

TIER = Tier("m", "kind_m", 2, 1024, slots=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "lba-ce"}, "policy='lba-ce': give a policy"),
        ({"policy": LBACE}, r"policy=<class .*: give a policy"),
        ({"policy": OERA()}, r"policy=OERA\(.*: give a policy"),
        ({"rebalancer": "st-stream"}, "rebalancer='st-stream': give a rebalancer"),
        ({"rebalancer": StStream}, r"rebalancer=<class .*: give a rebalancer"),
        ({"backlog": 3}, "backlog=3: give a function"),
        ({"partitions": 3}, "partitions=3: give .fewest, most."),
        ({"partitions": (3,)}, r"partitions=\(3,\): give"),
        ({"partitions": (0, 3)}, r"partitions=\(0, 3\): give"),
        ({"partitions": (4, 3)}, r"partitions=\(4, 3\): give"),
        ({"partitions": (1.5, 3)}, r"partitions=\(1.5, 3\): give"),
        ({"executors": (2, 1)}, r"executors=\(2, 1\): give"),
        ({"executors": ("1", "2")}, "executors="),
        ({"locality_wait_s": -1}, "locality_wait_s=-1: give a finite number, at least 0"),
        ({"locality_wait_s": float("inf")}, "locality_wait_s=inf: give a finite number"),
        ({"cooldown_s": float("nan")}, "cooldown_s=nan: give a finite number"),
        ({"cooldown_s": None}, "cooldown_s=None: give a finite number"),
        ({"cooldown_s": "5"}, "cooldown_s='5': give a finite number"),
        ({"hysteresis": 1}, "hysteresis=1: give a share"),
        ({"hysteresis": float("nan")}, "hysteresis=nan: give a share"),
        ({"tiers": ["m"]}, r"tiers=\['m'\]: give a list or a tuple of Tier"),
        ({"delta": 0}, "delta=0: give a share"),
        ({"delta": 1.1}, "delta=1.1: give a share"),
        ({"tiers": [TIER], "executors": (1, 2)}, "tiers= and executors= exclude each other"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        Placement(**options)


def test_prices_are_rows_or_a_file(tmp_path: Path) -> None:
    assert Placement().price_table() == ()
    assert Placement(prices=[Price("*", 2.0)]).price_table() == (Price("*", 2.0),)
    file = tmp_path / "prices.yaml"
    file.write_text('prices: [{pattern: "m*", price_per_s: 2, cpu_cores: 4, memory_mb: 9}]')
    told = (Price("m*", 2.0, capacity=Resources(4, 9)),)
    assert Placement(prices=file).price_table() == told
    assert Placement(prices=str(file)).price_table() == told
    with pytest.raises(errors.ClusterFileError, match=r"none\.yaml: cannot be read"):
        Placement(prices=tmp_path / "none.yaml").price_table()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "name is empty: give a name"),
        ({"name": None}, "name=None: give a text"),
        ({"cores": 1.5}, "cores=1.5: give 1, 2, 3"),
        ({"cores": True}, "cores=True: give 1, 2, 3"),
        ({"price_per_s": float("nan")}, "price_per_s=nan: give a finite number"),
        ({"resource": ""}, "resource is empty: give a name"),
        ({"cores": 0}, "cores=0: give 1, 2, 3"),
        ({"memory_mb": 0}, "memory_mb=0: give 1, 2, 3"),
        ({"slots": 0}, "slots=0: give 1, 2, 3"),
    ],
)
def test_a_tier_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    good = {"name": "m", "resource": "kind_m", "cores": 2, "memory_mb": 1024, "slots": 4}
    with pytest.raises(errors.ArgumentError, match=message):
        Tier(**good | options)


def test_a_tier_is_one_worker_to_a_policy() -> None:
    worker = Tier("m", "kind_m", cores=2, memory_mb=1024, slots=5, price_per_s=0.5).worker
    assert (worker.id, worker.tier, worker.slots, worker.price_per_s) == ("m", "m", 5, 0.5)
    assert worker.capacity == Resources(5, 3 * 1024)  # three executors


def test_the_summary_of_a_cycle_is_one_line() -> None:
    left = {"join-1": "all 1 slots are taken"}
    result = PlacementResult(None, 4, {"join-0": "a"}, {"join-0": "a"}, {"a": 1}, left)
    told = "4 tasks, 50 % where planned, 1 without room, 0 workers idle; no decision"
    assert result.summary == told
