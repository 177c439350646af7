"""Road traffic: a network, what is usual on it at which time, and live events from it.

The BS-Join paper (section 6.2) joins road events with six tables of a road network to obtain the
capacity of every turn: delay, time stopped, length of the queue. Its 63 GB are confidential; these
tables are made by a seed and of any size. The network is a square of two-way streets with a signal
at every crossing; all keys join by equality, time by weekday and slice of the day.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

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

_EAST, _SOUTH = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])  # a step to each direction
_QUARTERS = np.array([0, 1, 3])  # of a full turn, by kind
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
    """

    def __init__(self, side: int, seed: int = 0):
        if side < 2:
            raise ValueError(f"side={side!r}: there must be 2 crossings a side or more")
        self.side, self.seed = side, seed
        random = np.random.default_rng([seed, 0])
        # Every crossing has a road in each direction that does not leave the square.
        place, direction = np.divmod(np.arange(4 * side * side), 4)
        x, y = place % side + _EAST[direction], place // side + _SOUTH[direction]
        inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
        self.begin, self.end = place[inside], (y * side + x)[inside]
        # And a turn of each kind from a road into one that goes on from its end.
        road, kind = np.divmod(np.arange(len(KINDS) * len(self.end)), len(KINDS))
        towards = (direction[inside][road] + _QUARTERS[kind]) % 4
        possible = inside[4 * self.end[road] + towards]
        self.turn_road, self.turn_kind = road[possible], kind[possible]
        self.length_m = random.integers(200, 601, len(self.end))
        self.limit_kmh = random.choice([30, 50, 50, 60], len(self.end))
        self._peak = random.uniform(0.1, 0.8, len(self.end))
        self._cycle_s = 60 + 5 * random.integers(0, 9, side * side)

    def tables(self) -> dict[str, pa.Table]:
        """The six tables, in the order of the joins; about 0.3 s for a million rows."""
        places = np.arange(self.side**2)
        names = np.array([f"{n % self.side + 1}-{n // self.side + 1}" for n in places])
        begins, ends = names[self.begin], names[self.end]
        tables = {
            "turns": {
                "turn": np.arange(len(self.turn_road)),
                "road": self.turn_road,
                "crossing": self.end[self.turn_road],
                "turn_kind": np.array(KINDS)[self.turn_kind],
            },
            "roads": {
                "road": np.arange(len(self.end)),
                "length_m": self.length_m,
                "limit_kmh": self.limit_kmh,
                "road_name": np.char.add(np.char.add(begins, " to "), ends),
            },
            "crossings": {"crossing": places, "crossing_name": names},
            "signals": self._signals(),
            "road_times": self._road_times(),
            "turn_times": self._turn_times(),
        }
        return {name: pa.table(columns) for name, columns in tables.items()}

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

    def _signals(self) -> dict[str, Any]:
        shape = (self.side**2, len(KINDS), SLICES)
        crossing, kind, part = (axis.ravel() for axis in np.indices(shape))
        cycle_s = self._cycle_s[crossing] + _whole(30 * _rush(part))
        found = {"crossing": crossing, "turn_kind": np.array(KINDS)[kind], "slice": part}
        return found | {"cycle_s": cycle_s, "green_s": _whole(np.round(cycle_s * _GREEN[kind]))}

    def _road_times(self) -> dict[str, Any]:
        found, usual = self._history("road", self._road_ms(np.arange(SLICES))[:, None], 2)
        return found | {"usual_ms": _whole(usual)}

    def _turn_times(self) -> dict[str, Any]:
        cycle_ms, red = self._red(np.arange(len(self.turn_road)))
        wait = (red**2 / (2 * cycle_ms))[:, None, None] * (1 + 0.3 * _rush(np.arange(SLICES)))
        found, usual = self._history("turn", wait, 3)
        stop = _whole(usual)
        found |= {"usual_pass_ms": stop + _CROSS_MS, "usual_stop_ms": stop}
        return found | {"usual_queue_m": _whole(usual * 5e-4)}

    def _history(self, key: str, usual: Floats, seed: int) -> tuple[dict[str, Any], Floats]:
        """Key, weekday and slice of every row, and what is usual then, by weekday more or less."""
        by_day = np.random.default_rng([self.seed, seed]).lognormal(0, 0.05, (1, WEEKDAYS, 1))
        values = usual * by_day
        which, day, part = (axis.ravel() for axis in np.indices(values.shape))
        return {key: which, "weekday": day, "slice": part}, values.ravel()

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
