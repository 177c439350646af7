"""Live on a standalone cluster of workers with 1, 2 and 3 cores: requested placements are met.

Every scenario of ``live_scenarios.py`` runs once, in one driver of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is no address elsewhere"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver has seen."""
    folder = tmp_path_factory.mktemp("live")
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("live_scenarios.py")), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    seen: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return seen


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
    assert set(seen["rows"]) == {5_000}


def test_a_policy_is_improved_where_all_executors_are_paid_for(found: dict[str, Any]) -> None:
    seen = joined(found, "policies", "lba-ce")
    assert seen["placed"][0][1] == "the first plan"
    assert all(requested == landed == 3 for _, _, _, requested, landed, _ in seen["placed"])
    assert seen["rows"] == [5_000] * 3
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
    assert [placed[2:5] for placed in seen["placed"]] == [[3, 3, 3]]


def test_the_bytes_that_hosts_have_cached_are_known(found: dict[str, Any]) -> None:
    uniform = joined(found, "layouts", "uniform, AQE true")["cached"]
    assert len(uniform) == 12
    assert all(set(one) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"} for one in uniform)
    alone = joined(found, "layouts", "one, AQE true")["cached"]
    assert all(set(one) == {"127.0.0.4"} for one in alone)
    assert min(min(one.values()) for one in [*uniform, *alone]) > 0
    # Of a source, each partition has the entries of its own keys, where it loaded them.
    seen = joined(found, "policies", "source")
    at = [set(one) for one in seen["cached"]]
    assert len(at) == 6
    assert all(len(hosts) == 1 for hosts in at)
    ran = seen["placed"][0][5]
    assert set.union(*at) == {worker.partition("/")[0] for worker in ran}


def test_a_dry_run_changes_nothing(found: dict[str, Any]) -> None:
    (placed,) = joined(found, "policies", "dry run")["placed"]
    assert placed[3:5] == [0, 0]


def test_a_stream_is_placed_in_every_micro_batch(found: dict[str, Any]) -> None:
    assert joined(found, "streaming")["shares"] == [[6, 6]] * 2


def test_an_executor_killed_in_mid_cycle_loses_and_doubles_no_row(found: dict[str, Any]) -> None:
    seen = joined(found, "killed")
    assert seen["new executors"] == 1
    *_, requested, landed, workers = seen["placed"][1]
    assert requested == sum(workers.values()) == 12
    assert landed < 12


def test_an_executor_that_goes_is_left_and_one_that_comes_moves_what_it_must(
    found: dict[str, Any],
) -> None:
    seen = found["added_and_removed"]
    assert "error" not in seen, seen["error"]
    first, released, second, third = seen["cycles"]
    assert all(cycle["right"] for cycle in seen["cycles"])
    assert all(cycle["share"] == 1 for cycle in (first, second, third))
    assert [cycle["requested"] for cycle in seen["cycles"]] == [6] * 4
    assert seen["gone"] in first["workers"]
    assert seen["gone"] not in released["workers"]
    lost = first["workers"][seen["gone"]] / 6
    assert released["share"] == pytest.approx(1 - lost)  # the others keep theirs
    assert seen["gone"] not in second["workers"]
    # Rows so few weigh next to nothing: whether a new executor gains more than moving costs depends
    # on what was measured. One that is used is used by decision.
    used = bool(set(third["workers"]) - set(second["workers"]))
    assert used == (third["action"] != "none"), seen["cycles"]


def test_idle_executors_are_given_back(found: dict[str, Any]) -> None:
    seen = joined(found, "fleet")
    assert seen["left"] == 1
    assert seen["after"]
    assert all(set(placed[5]) == {"127.0.0.4/0"} for placed in seen["placed"])


def test_a_tier_is_chosen_by_resource_profile(found: dict[str, Any]) -> None:
    (placed,) = joined(found, "tiers")["placed"]
    assert placed[2:5] == [4, 4, 4]
    assert placed[5] == {"large": 4}
