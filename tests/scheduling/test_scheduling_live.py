"""Live on a standalone cluster of workers with 1, 2 and 3 cores: requested placements are met.

Every scenario of ``live_scenarios.py`` runs once, in one driver of its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from checks_apart import found_by

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is no address elsewhere"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver has seen."""
    return found_by("live_scenarios.py", tmp_path_factory.mktemp("live"), 540)


def joined(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """What a scenario saw, once it is known that it ended and its rows are right."""
    for name in names:
        assert "error" not in found, found["error"]
        found = found[name]
    assert "error" not in found, found["error"]
    assert found["right"]
    return found


def test_every_task_runs_on_the_requested_executor(found: dict[str, Any]) -> None:
    seen = joined(found, "layouts")
    for action, _, partitions, requested, landed, workers in seen["placed"]:
        assert action in ("place", "none")
        assert (partitions, requested, landed) == (12, 12, 12)
        assert sorted(workers.values(), reverse=True) == [6, 4, 2]
    assert set(seen["rows"]) == {5_000}


def test_what_a_policy_answers_is_where_the_tasks_run(found: dict[str, Any]) -> None:
    seen = found["followed"]
    assert "error" not in seen, seen["error"]
    layouts = {}
    for name, one in seen.items():
        assert all(cycle["right"] for cycle in one["cycles"])
        assert [cycle["landed"] for cycle in one["cycles"]] == one["answers"], name
        assert [cycle["share"] for cycle in one["cycles"]] == [1.0] * 3
        assert one["history"] == [False, True, True]  # the policy is asked with what was seen
        assert f"policy: {name}, asked in every cycle" in one["explained"]
        at = one["answers"][-1].values()
        layouts[name] = tuple(sorted(Counter(worker.partition("/")[0] for worker in at).items()))
    # The small ones first; all on the cheap one.
    assert dict(layouts["gs-bfd"]) == {"127.0.0.2": 1, "127.0.0.3": 2}
    assert dict(layouts["cetsa"]) == {"127.0.0.4": 3}
    assert layouts["lba-ce"] != layouts["gs-bfd"]


def test_a_plan_is_kept_until_an_answer_pays_and_a_scaler_changes_the_number_of_partitions(
    found: dict[str, Any],
) -> None:
    seen = joined(found, "cycles", "scaled")
    assert [partitions for _, _, partitions, *_ in seen["placed"]] == [3, 3, 5, 5]
    assert seen["placed"][0][1].startswith("the first plan")
    assert seen["placed"][2][1] == "join has 5; wants: more is needed"
    for action, reason, _, requested, landed, _ in seen["placed"]:
        assert requested == landed
        assert action != "none" or reason.startswith("kept: ")


def test_the_bytes_that_hosts_have_cached_are_known(found: dict[str, Any]) -> None:
    cached = joined(found, "layouts")["cached"]
    assert len(cached) == 12
    assert all(set(one) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"} for one in cached)
    assert min(min(one.values()) for one in cached) > 0
    # Of a source, each partition has the entries of its own keys, where it loaded them.
    seen = joined(found, "cycles", "source")
    at = [set(one) for one in seen["cached"]]
    assert [len(hosts) for hosts in at] == [1] * 6
    assert set.union(*at) == {worker.partition("/")[0] for worker in seen["placed"][0][5]}


def test_an_executor_killed_in_mid_cycle_loses_and_doubles_no_row(found: dict[str, Any]) -> None:
    seen = joined(found, "killed")
    assert seen["new executors"] == 1
    *_, requested, landed, workers = seen["placed"][1]
    assert requested == sum(workers.values()) == 12
    assert landed < 12


def test_an_executor_that_goes_is_left_and_one_that_comes_is_used(found: dict[str, Any]) -> None:
    seen = found["added_and_removed"]
    assert "error" not in seen, seen["error"]
    first, released, missed, repaired, again = seen["cycles"]
    assert all(cycle["right"] for cycle in seen["cycles"])
    assert [cycle["requested"] for cycle in seen["cycles"]] == [6] * 5
    assert seen["gone"] in first["workers"]
    lost = first["workers"][seen["gone"]] / 6
    # Its tasks run elsewhere at once, the others keep theirs. Missed once it may be there still.
    assert all(seen["gone"] not in cycle["workers"] for cycle in seen["cycles"][1:])
    assert released["share"] == pytest.approx(1 - lost)
    assert missed["share"] in (pytest.approx(1 - lost), 1)
    assert all(cycle["share"] == 1 for cycle in (first, repaired, again))
    assert len(set(again["workers"]) - set(repaired["workers"])) == 1


def test_idle_executors_are_given_back(found: dict[str, Any]) -> None:
    seen = joined(found, "idle")
    assert seen["left"] == 1
    assert seen["after"]
    assert all(set(placed[5]) == {"127.0.0.4/0"} for placed in seen["placed"])


def test_a_tier_is_chosen_by_resource_profile(found: dict[str, Any]) -> None:
    (placed,) = joined(found, "tiers")["placed"]
    assert placed[2:5] == [4, 4, 4]
    assert placed[5] == {"large": 4}
