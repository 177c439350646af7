"""Road traffic: what is the capacity of every turn just now?

The paper's second job (section 6.2): live road events meet six tables. Here in turn:

    turns       on the turn                                its road, its crossing, left or right
    roads       on the road                                length, limit, name
    crossings   on the crossing                            name
    signals     on crossing, kind of turn, slice           the signal's cycle and green
    road_times  on road, weekday, slice                    what is usual on the road
    turn_times  on turn, weekday, slice                    what is usual at the turn

Delay, time stopped and queue against what is usual are differences of two columns of the result.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from benchmarks.data.traffic import network
from benchmarks.rivals.job import Job, Step, store

__all__ = ["JOB", "traffic_tables"]


def traffic_tables(folder: Path, side: float) -> Path:
    """Make the six tables of a network, unless they are there.

    Args:
        folder: where they are kept.
        side: crossings along one side of the network.

    Returns:
        A folder with a folder of Parquet files for each table.

    Complexity: O(rows): side 10 has 1.8 million rows, side 30 has 16 million.
    """
    made = folder / f"traffic-{side:g}"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        for name, table in network(int(side)).tables().items():
            store(table, made / name)
        (made / "complete").touch()
    return made


def _events(side: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    return network(int(side)).events(rows, cycle, kind, seed)


JOB = Job(
    name="traffic",
    stream={
        "event": "long",
        "turn": "long",
        "weekday": "long",
        "slice": "long",
        "travel_ms": "long",
        "stopped_ms": "long",
        "queue_m": "long",
    },
    steps=(
        Step("turns", ("turn",), {"road": "long", "crossing": "long", "turn_kind": "string"}),
        Step("roads", ("road",), {"length_m": "long", "limit_kmh": "long", "road_name": "string"}),
        Step("crossings", ("crossing",), {"crossing_name": "string"}),
        Step("signals", ("crossing", "turn_kind", "slice"), {"cycle_s": "long", "green_s": "long"}),
        Step("road_times", ("road", "weekday", "slice"), {"usual_ms": "long"}),
        Step(
            "turn_times",
            ("turn", "weekday", "slice"),
            {"usual_pass_ms": "long", "usual_stop_ms": "long", "usual_queue_m": "long"},
        ),
    ),
    tables=traffic_tables,
    events=_events,
    size="crossings along one side",
)
