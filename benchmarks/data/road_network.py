"""Road traffic: a network, what is usual on it at which time, and live events from it.

The BS-Join paper (section 6.2) joins road events with six tables of a road network to obtain the
capacity of every turn: delay, time stopped, length of the queue. Its 63 GB are confidential; these
tables are made by a seed and of any size. The network is a square of two-way streets with a signal
at every crossing; all keys join by equality, time by weekday and slice of the day.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

SLICES = 144
"""Slices of a day, of ten minutes each."""

WEEKDAYS = 7
KINDS = ("straight", "left", "right")
STREAMS = ("uniform", "centre")

_STEP_TO = ((1, 0), (0, 1), (-1, 0), (0, -1))  # east, north, west, south
_QUARTERS = {"straight": 0, "left": 1, "right": 3}
_GREEN = np.array([0.45, 0.2, 0.45])  # share of a signal's cycle, by kind
_CROSS_MS = 4_000
_VEHICLE_M = 7
_FIRST_SLICE = 42  # seven in the morning


class Network:
    """Streets and signals, what is usual there, and what vehicles report.

    Args:
        side: crossings along one side, 2 or more: ``4 side (side - 1)`` roads, each in one
            direction, and about 2.7 turns a road.
        seed: of all random numbers.

    Raises:
        ValueError: there are fewer than two crossings a side.
    """

    def __init__(self, side: int, seed: int = 0):
        if side < 2:
            raise ValueError(f"side={side!r}: there must be 2 crossings a side or more")
        self.side, self.seed = side, seed
        random = np.random.default_rng([seed, 0])
        roads: dict[tuple[int, int], int] = {}  # by begin and direction: the end
        for place in range(side * side):
            for direction, (dx, dy) in enumerate(_STEP_TO):
                x, y = place % side + dx, place // side + dy
                if 0 <= x < side and 0 <= y < side:
                    roads[place, direction] = y * side + x
        self.begin = np.array([place for place, _ in roads])
        self.end = np.array(list(roads.values()))
        turns = [
            (road, kind)
            for road, ((_, direction), end) in enumerate(roads.items())
            for kind, name in enumerate(KINDS)
            if (end, (direction + _QUARTERS[name]) % 4) in roads
        ]
        self.turn_road, self.turn_kind = np.array(turns).T
        self.length_m = random.integers(200, 601, len(roads))
        self.limit_kmh = random.choice([30, 50, 50, 60], len(roads))
        self._peak = random.uniform(0.1, 0.8, len(roads))
        self._cycle_s = 60 + 5 * random.integers(0, 9, side * side)

    def tables(self) -> dict[str, pa.Table]:
        """The six tables, in the order of the joins.

        Complexity: O(rows); about 0.3 s for a million.
        """
        names = np.array([f"{n % self.side + 1}-{n // self.side + 1}" for n in range(self.side**2)])
        to = np.char.add(np.char.add(names[self.begin], " to "), names[self.end])
        turns = {
            "turn": np.arange(len(self.turn_road)),
            "road": self.turn_road,
            "crossing": self.end[self.turn_road],
            "turn_kind": np.array(KINDS)[self.turn_kind],
        }
        roads = {
            "road": np.arange(len(self.begin)),
            "length_m": self.length_m,
            "limit_kmh": self.limit_kmh,
            "road_name": to,
        }
        crossings = {"crossing": np.arange(len(names)), "crossing_name": names}
        return {
            "turns": pa.table(turns),
            "roads": pa.table(roads),
            "crossings": pa.table(crossings),
            "signals": self._signals(),
            "road_times": self._road_times(),
            "turn_times": self._turn_times(),
        }

    def events(
        self, rows: int, cycle: int, kind: str = "centre", seed: int | None = None
    ) -> pa.Table:
        """What vehicles report in ten minutes; cycle 0 begins at seven in the morning.

        Args:
            rows: how many events.
            cycle: which ten minutes: 0, 1, 2, ...; each can be drawn by itself.
            kind: "uniform": the same on all turns; "centre": more near the centre.
            seed: of what vehicles report; None: that of the network.

        Returns:
            event, turn, weekday, slice, travel_ms (on the road before the turn), stopped_ms (at its
            signal), queue_m (how far from the signal).

        Raises:
            ValueError: an unknown kind.

        Complexity: O(rows log turns).
        """
        if kind not in STREAMS:
            raise ValueError(f"kind={kind!r}: give one of {', '.join(STREAMS)}")
        random = np.random.default_rng([self.seed if seed is None else seed, 1, cycle])
        if kind == "uniform":
            turn = random.integers(0, len(self.turn_road), rows)
        else:
            weight = self._centrality().cumsum()
            turn = np.searchsorted(weight, random.random(rows) * weight[-1], side="right")
        moment = _FIRST_SLICE + cycle
        weekday, part = moment // SLICES % WEEKDAYS, moment % SLICES
        usual = self._road_ms(np.full(1, part))[self.turn_road[turn], 0]
        cycle_ms, red = self._red(turn)
        stopped = np.maximum(red - random.random(rows) * cycle_ms, 0.0)
        queue = np.where(stopped > 0, random.poisson(stopped / 10_000), 0) * _VEHICLE_M
        return pa.table(
            {
                "event": np.arange(rows) + cycle * 100_000_000,
                "turn": turn,
                "weekday": np.full(rows, weekday),
                "slice": np.full(rows, part),
                "travel_ms": _whole(usual * random.lognormal(0, 0.2, rows)),
                "stopped_ms": _whole(stopped),
                "queue_m": queue.astype(np.int64),
            }
        )

    def _signals(self) -> pa.Table:
        shape = (self.side**2, len(KINDS), SLICES)
        crossing, kind, part = (axis.ravel() for axis in np.indices(shape))
        cycle_s = self._cycle_s[crossing] + _whole(30 * _rush(part))
        kinds = pa.array(KINDS).take(pa.array(kind))
        green_s = _whole(np.round(cycle_s * _GREEN[kind]))
        names = ["crossing", "turn_kind", "slice", "cycle_s", "green_s"]
        return pa.table([crossing, kinds, part, cycle_s, green_s], names)

    def _road_times(self) -> pa.Table:
        usual = self._road_ms(np.arange(SLICES))
        random = np.random.default_rng([self.seed, 2])
        by_day = usual[:, None, :] * random.lognormal(0, 0.05, (1, WEEKDAYS, 1))
        return self._history("road", by_day, {"usual_ms": 1.0})

    def _turn_times(self) -> pa.Table:
        cycle_ms, red = self._red(np.arange(len(self.turn_road)))
        wait = (red**2 / (2 * cycle_ms))[:, None, None]
        random = np.random.default_rng([self.seed, 3])
        rush = 1 + 0.3 * _rush(np.arange(SLICES))
        by_day = wait * rush * random.lognormal(0, 0.05, (1, WEEKDAYS, 1))
        found = self._history("turn", by_day, {"usual_stop_ms": 1.0, "usual_queue_m": 5e-4})
        passing = found.column("usual_stop_ms").to_numpy() + _CROSS_MS
        return found.add_column(3, "usual_pass_ms", [pa.array(passing)])

    def _history(self, key: str, values: Floats, factors: dict[str, float]) -> pa.Table:
        """One row for each key, weekday and slice."""
        which, day, part = (axis.ravel() for axis in np.indices(values.shape))
        found = {key: which, "weekday": day, "slice": part}
        return pa.table(found | {name: _whole(values.ravel() * by) for name, by in factors.items()})

    def _road_ms(self, parts: Int64s) -> Floats:
        free = 3600.0 * self.length_m / self.limit_kmh
        return free[:, None] * (1.15 + self._peak[:, None] * _rush(parts))

    def _red(self, turn: Int64s) -> tuple[Floats, Floats]:
        """The cycle of a turn's signal without the rush hours, and its red part, in ms."""
        cycle = 1000.0 * self._cycle_s[self.end[self.turn_road[turn]]]
        return cycle, cycle * (1 - _GREEN[self.turn_kind[turn]])

    def _centrality(self) -> Floats:
        middle, place = (self.side - 1) / 2, self.end[self.turn_road]
        far = np.hypot(place % self.side - middle, place // self.side - middle)
        return np.exp(-4 * far / self.side)


@lru_cache(maxsize=2)
def network(side: int, seed: int = 20260721) -> Network:
    """The network of a size, made once."""
    return Network(side, seed)


def _rush(parts: Int64s) -> Floats:
    """The share of the rush hours, about 8:00 and 17:30, in a slice."""
    hour = (parts + 0.5) * 24 / SLICES
    return np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17.5) ** 2) / 3)


def _whole(numbers: Floats) -> Int64s:
    return numbers.astype(np.int64)
