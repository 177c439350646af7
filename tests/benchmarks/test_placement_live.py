"""The live experiment without Spark: what its records say, arrivals, and groups of processes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest

from benchmarks.papers.scheduling import placement_live_figures as figures
from benchmarks.papers.scheduling import placement_live_runs as runs
from benchmarks.papers.scheduling import placement_live_scaling as scaling
from benchmarks.papers.scheduling.placement_live_figures import CLAIMS
from benchmarks.papers.scheduling.placement_live_runs import Cycle
from benchmarks.papers.scheduling.placement_live_source import Reader, arrivals
from scheduling.elastic import Step

LOAD = scaling.Load(low_s=20.0, high_s=40.0)
CURVE = arrivals(LOAD.points)


def cycles(rents: dict[str, Sequence[float]]) -> list[Cycle]:
    """Two counted cycles a turn; the uncounted ones would be seen."""
    return [
        Cycle(
            "Wordcount",
            way,
            turn,
            number,
            ran_s=1.0,
            length_s=2.0,
            rows=1_000,
            rent_per_s=rent if number >= runs.UNCOUNTED else 99.0,
            workers=2,
            deviation=0.2,
            gap=0.4,
            moves=number,
            requested=4,
            landed=4,
            unplaced=0,
        )
        for way, by_turn in rents.items()
        for turn, rent in enumerate(by_turn)
        for number in range(runs.UNCOUNTED + 2)
    ]


def test_a_turn_is_the_rent_of_its_counted_cycles() -> None:
    turn = figures.turns(cycles({"CETSA": [0.01]})).loc["Wordcount", "CETSA", 0]
    assert turn.dollars == pytest.approx(0.01 * 2.0 / 1_000 * 1e6)
    assert turn.deviation == pytest.approx(0.2)
    assert turn.gap == pytest.approx(0.4)
    assert turn.moves == runs.UNCOUNTED + 0.5
    assert (turn.requested, turn.landed) == (8, 8)


def test_changes_are_of_the_same_turn() -> None:
    """A machine that is twice as slow in one turn changes no ratio."""
    found = figures.turns(cycles({"Default": [0.02, 0.04], "CETSA": [0.01, 0.02]}))
    made = figures.changes(found, "Wordcount", "CETSA", "Default", "rent")
    assert made == pytest.approx([-0.5, -0.5])
    assert figures.percent(made) == "-50 % (-50 to -50)"
    assert figures.changes(found, "Wordcount", "CETSA", "round robin", "rent") == []
    shown = figures.table(found, "Wordcount", "")
    at = shown.columns.index("against Default")
    assert [(row[0], row[at]) for row in shown.rows] == [
        ("Default", None), ("CETSA", "-50 % (-50 to -50)")
    ]  # fmt: skip


def test_a_claim_holds_by_direction_and_half_its_size() -> None:
    for paper in (-0.4, 0.4):
        for share in (1.0, 0.51, 0.49, -0.1, 3.0):
            found = figures.verdict(paper, [share * paper])
            assert found.startswith("holds here") == (share > 0.5)
            assert found.startswith("does not hold") == (share <= 0)


def test_claims_name_ways_and_jobs_that_run() -> None:
    ways = {way.name for way in (*runs.WAYS, *runs.ST_STREAM_WAYS)}
    for claim in CLAIMS:
        assert {claim.way, claim.against} <= ways
        assert claim.job in ("Wordcount", "Fixwindow", "skewed")
        assert claim.measure in figures.MEASURES


def test_the_parts_of_a_micro_batch_are_all_its_rows() -> None:
    told = '{"points": [[0, 100]], "noise": 0, "seed": 1}'
    reader = Reader({"curve": told, "began_s": "0", "tasks": "12"})
    for first, end in ((0, 5), (7, 7), (3, 30_011)):
        parts = reader.partitions({"rows": first}, {"rows": end})
        read = [
            row for part in parts for batch in reader.read(part) for row in batch[0].to_pylist()
        ]
        assert read == list(range(first, end))


def scaled(grow_s: float, target: int = 6) -> scaling.Run:
    """A run that has enough cores from a second on; micro-batches of 3 s, that end 1 s later."""
    steps = [
        Step(float(at), "steady", 2 if at < grow_s else target, None, None, "")
        for at in range(0, int(LOAD.seconds) + 1, 5)
    ]
    steps[3] = Step(15.0, "changing", 2, 1, 1, "before the rise")
    steps[5] = Step(25.0, "changing", 2, target, target, "more is needed")
    progress, first = [], 0
    for at in range(0, int(LOAD.seconds), 3):
        end = int(CURVE(at))
        progress.append(
            {
                "numInputRows": end - first,
                "timestamp": f"1970-01-01T00:{at // 60:02d}:{at % 60:02d}.000Z",
                "durationMs": {"triggerExecution": 1000},
                "sources": [{"startOffset": f'{{"rows": {first}}}', "endOffset": {"rows": end}}],
            }
        )
        first = end
    return scaling.recorded("OERA", steps, progress, 0.0)


def test_a_scaling_run_tells_waits_requests_and_rows() -> None:
    run = scaled(grow_s=32)
    assert run.rows == run.expected == int(CURVE(int(LOAD.seconds - 1) // 3 * 3))
    waits = run.waits(CURVE, LOAD.seconds, 3, 60)
    assert 0.9 < waits.min() < 1.1
    assert 3.9 < waits.max() < 4.1
    assert run.enough(LOAD) == (1, 15.0)  # the request before the rise does not count
    assert scaled(grow_s=1e9).enough(LOAD) is None
    assert run.core_s == 2 * 35 + 6 * (LOAD.seconds - 35)


def test_a_rise_that_is_followed_reaches_its_figures() -> None:
    followed, missed = (
        {one.name.partition(": ")[2]: one for one in scaling.figures([run], LOAD, CURVE)}
        for run in (scaled(grow_s=32), scaled(grow_s=1e9))
    )
    assert all(one.reached for one in followed.values())
    assert not all(one.reached for one in missed.values())
    silent = dataclasses.replace(scaled(grow_s=32), batches=())
    (behind,) = (one for one in scaling.figures([silent], LOAD, CURVE) if "median wait" in one.name)
    assert behind.value == pytest.approx(LOAD.seconds - LOAD.high_between[1] + 5, abs=1)
    for one in scaling.figures([silent], LOAD, CURVE):  # a record has finite numbers only
        assert math.isfinite(one.value)


def test_scalers_have_a_row_each_and_cores_over_time() -> None:
    run = scaled(grow_s=32)
    shown = scaling.table([run], LOAD, CURVE)
    row = dict(zip(shown.columns, shown.rows[0], strict=True))
    assert row["until enough"] == "1 in 15 s"
    assert (row["cores, low"], row["cores, high"]) == ("2 to 2", "2 to 6")
    assert row["cores, low again"] == "6 to 6"
    verdicts = [r[-2] for r in scaling.claims([run], LOAD, CURVE).rows]
    assert verdicts == [None] * 4  # the others did not run
