"""Whether a plan is one that can be carried out, for tests and for plans that are timed."""

from __future__ import annotations

from scheduling import Assignment, JobGraph, Plan, Resources, Snapshot, Unplaced


def assert_feasible(plan: Plan, graph: JobGraph, snapshot: Snapshot) -> None:
    """Assert that a plan is feasible and complete (CETSA, Eqs. 18 and 19). O(tasks)."""
    both: list[Assignment | Unplaced] = [*plan.assignments, *plan.unplaced]
    listed = [one.task for one in both]
    assert len(listed) == len(set(listed)), "a task is there twice"
    assert set(listed) == set(graph.by_id), "a task is missing, or none of the graph's"
    for name, tasks in plan.by_worker.items():
        assert name in snapshot.by_id, f"there is no worker {name}"
        slots, free = snapshot.free_slots[name], snapshot.free[name]
        assert len(tasks) <= slots, f"{len(tasks)} tasks in {slots} slots"
        total = sum((graph.by_id[task].demand for task in tasks), Resources(0.0, 0.0))
        assert total.within(free), f"{name}: {total!r} is over {free!r}"
    assert all(one.reason for one in both), "no reason is given"
