"""Live on a standalone cluster of workers with 1, 2 and 3 cores: requested placements are met.

Every scenario of ``live_scenarios.py`` runs once, in one driver of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standalone import Standalone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is no address elsewhere"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("live")
    cluster = Standalone(folder, cores=(1, 2, 3), resources=("", "middle", "large"))
    try:
        yield cluster.url, folder
    finally:
        cluster.stop()


def scenarios(cluster: tuple[str, Path], *names: str) -> dict[str, Any]:
    """What a driver of its own has seen."""
    url, folder = cluster
    program = Path(__file__).with_name("live_scenarios.py")
    ended = subprocess.run(
        [sys.executable, str(program), url, str(folder), *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


@pytest.fixture(scope="module")
def found(cluster: tuple[str, Path]) -> dict[str, Any]:
    return scenarios(cluster)


def joined(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """What a scenario saw, once it is known that it ended and its rows are right."""
    for name in names:
        assert "error" not in found, found["error"]
        found = found[name]
    assert "error" not in found, found["error"]
    assert found["right"]
    return found


@pytest.mark.parametrize(
    ("layout", "counts"),
    [
        ("uniform, AQE true", [4, 4, 4]),
        ("uniform, AQE false", [4, 4, 4]),
        ("weighted, AQE true", [6, 4, 2]),
        ("one, AQE true", [12]),
    ],
)
def test_every_task_runs_on_the_requested_executor(
    found: dict[str, Any], layout: str, counts: list[int]
) -> None:
    seen = joined(found, "layouts", layout)
    for action, _, partitions, requested, landed, workers in seen["placed"]:
        assert action in ("place", "none")
        assert (partitions, requested, landed) == (12, 12, 12)
        assert sorted(workers.values(), reverse=True) == counts
    assert seen["rows"] == [20_000, 20_000]


def test_a_policy_leaves_the_dear_executor_once_it_knows_the_costs(found: dict[str, Any]) -> None:
    seen = joined(found, "policies", "lba-ce")
    first, *later = seen["placed"]
    assert first[1] == "the first plan"
    assert len(first[5]) == 3  # nothing is known yet: in turns
    assert any("instead of" in reason for _, reason, *_ in later)
    assert not any(name.startswith("127.0.0.4/") for name in later[-1][5])
    assert all(requested == landed == 3 for _, _, _, requested, landed, _ in seen["placed"])
    assert seen["rows"] == [20_000] * 3
    assert all(skew is not None for skew in seen["skew"])


def test_a_scaler_changes_the_number_of_partitions(found: dict[str, Any]) -> None:
    seen = joined(found, "policies", "oera")
    resized = [placed for placed in seen["placed"] if placed[0] == "resize"]
    assert resized
    assert all(2 <= partitions <= 5 for _, _, partitions, *_ in seen["placed"])
    alone = joined(found, "policies", "scaler alone")
    assert all(requested == landed == 0 for _, _, _, requested, landed, _ in alone["placed"])


def test_rows_that_come_in_partitions_of_their_own_are_placed_as_they_are(
    found: dict[str, Any],
) -> None:
    seen = joined(found, "policies", "no partitions")
    assert [placed[2:5] for placed in seen["placed"]] == [[3, 3, 3], [3, 3, 3]]


def test_a_dry_run_changes_nothing(found: dict[str, Any]) -> None:
    (placed,) = joined(found, "policies", "dry run")["placed"]
    assert placed[3:5] == [0, 0]
    assert found["policies"]["wait is set"] is False


def test_a_stream_is_placed_in_every_micro_batch(found: dict[str, Any]) -> None:
    assert joined(found, "streaming")["shares"] == [[6, 6]] * 4


def test_an_executor_killed_in_mid_cycle_loses_and_doubles_no_row(found: dict[str, Any]) -> None:
    seen = joined(found, "killed")
    assert seen["new executors"] == 1
    *_, requested, landed, workers = seen["placed"][1]
    assert requested == sum(workers.values()) == 12
    assert landed < 12


def test_an_executor_that_goes_is_left_and_one_that_comes_is_used(found: dict[str, Any]) -> None:
    seen = found["added and removed"]
    assert "error" not in seen, seen["error"]
    first, second, third = seen["cycles"]
    assert all(cycle["right"] and cycle["share"] == 1 for cycle in seen["cycles"])
    assert seen["gone"] in first["workers"]
    assert (second["action"], second["reason"]) == ("repair", f"gone: {seen['gone']}")
    assert seen["gone"] not in second["workers"]
    assert third["action"] == "place"
    assert set(third["workers"]) - set(second["workers"])


def test_idle_executors_are_given_back(found: dict[str, Any]) -> None:
    seen = joined(found, "fleet")
    assert seen["left"] == 1
    assert all(set(placed[5]) == {"127.0.0.4/0"} for placed in seen["placed"])


def test_a_tier_is_chosen_by_resource_profile(cluster: tuple[str, Path]) -> None:
    seen = scenarios(cluster, "tiers")
    for tier in ("middle", "large"):
        (placed,) = joined(seen, "tiers", tier)["placed"]
        assert placed[2:5] == [4, 4, 4]
        assert placed[5] == {tier: 4}
