"""The options of a placement, and what a loop says of a cycle and of failures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from scheduling import LBACE, OERA, Price, Resources, StStream, errors
from scheduling.spark import Placement, PlacementResult, Tier
from scheduling.spark.once import Once

TIER = Tier("m", "kind_m", 2, 1024, slots=4)


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


def test_an_option_that_cannot_be_used_is_refused() -> None:
    wrong: dict[str, list[Any]] = {
        "policy": ["lba-ce", LBACE, OERA()],
        "rebalancer": ["st-stream", StStream],
        "backlog": [3],
        "partitions": [3, (3,), (0, 3), (4, 3), (1.5, 3)],
        "executors": [(2, 1), ("1", "2")],
        "locality_wait_s": [-1, float("inf")],
        "cooldown_s": [float("nan"), None, "5"],
        "hysteresis": [1, float("nan")],
        "tiers": [["m"]],
        "delta": [0, 1.1],
    }
    for option, values in wrong.items():
        for value in values:
            with pytest.raises(errors.ArgumentError, match=f"{option}=.*: give "):
                Placement(**{option: value})
    with pytest.raises(errors.ArgumentError, match="tiers= and executors= exclude each other"):
        Placement(tiers=[TIER], executors=(1, 2))
    with pytest.raises(errors.ArgumentError, match="search=True has no effect without a hyst"):
        Placement(policy=LBACE(), search=True, hysteresis=0).check(None)
    idle = {"rebalancer": StStream(), "search": True, "tiers": [TIER], "executors": (1, 2)}
    scaled = {"partitions": (1, 2), "backlog": lambda: 0.0, "executors": (1, 2)}
    for name, value in (idle | scaled).items():
        for policy, scaler in ((None, None), (LBACE(), None), (None, OERA())):
            options: dict[str, Any] = {name: value, "policy": policy}
            if (policy and name in idle) or (scaler and name in scaled):
                Placement(**options).check(scaler)
                continue
            with pytest.raises(errors.ArgumentError, match=f"{name}=.* has no effect without a "):
                Placement(**options).check(scaler)
    tier = {"name": "m", "resource": "kind_m", "cores": 2, "memory_mb": 1024, "slots": 4}
    wrong = {
        "name": ["", None],
        "resource": [""],
        "cores": [0, 1.5, True],
        "memory_mb": [0],
        "slots": [0],
        "price_per_s": [float("nan")],
    }
    for option, values in wrong.items():
        for value in values:
            with pytest.raises(errors.ArgumentError, match=f"{option}.*: give "):
                Tier(**tier | {option: value})


def test_a_cycle_and_a_failure_are_told_in_one_line_and_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = {"join-1": "all 1 slots are taken"}
    result = PlacementResult(None, 4, {"join-0": "a"}, {"join-0": "a"}, {"a": 1}, left)
    told = "4 tasks, 50 % where planned, 1 without room, 0 workers idle; no decision"
    assert result.summary == told
    log = Once()
    with caplog.at_level(logging.DEBUG, "scheduling"):
        for failure in (OSError("disk 1"), OSError("disk 2"), ValueError("disk 1")):
            log.log("no new plan", failure)  # the same kind of error is the same cause
        log.log("the backlog is not known", OSError("disk 1"))
        for why in ("no history", "no history", "one worker"):  # a text is its own cause
            log.log("lba-ce fell back to", why)
        Once().log("no new plan", OSError("disk 1"))  # another loop
        for seconds in (3, 4):
            log.log("a metric of h/1 is not believed", f"{seconds} s", figures=True)
    assert caplog.messages[0] == "scheduling: no new plan: disk 1"
    assert [one.levelname[0] for one in caplog.records] == [*"WDWWWDWWWD"]
