"""A made-up city: its roads, what is known about them, and the vehicles that report from them.

The BS-Join paper (H. Ji et al., Future Generation Computer Systems, 2022; section 6.3) measures
range joins with a road congestion query: the reports of vehicles are the stream, the travel times
of roads and turns by slices of the day are the tables. Its data are not public. These are made by
a seed, the same in every run, of any size; numpy and pyarrow are all that is needed.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["JAM_FACTOR", "MINUTES_PER_SLICE", "SLICES", "City"]

MINUTES_PER_SLICE = 10
SLICES = 24 * 60 // MINUTES_PER_SLICE
JAM_FACTOR = (2.0, 4.0)  # how many times as long a jammed road takes, from the least to the most

_DAY = datetime(2026, 3, 10, tzinfo=UTC)  # of the reports
_KINDS = np.array(["straight", "left", "right"])
_STEP = np.array([0, 1, 3])  # quarters of a circle, counter-clockwise, by kind
_SHARE = np.array([0.6, 0.2, 0.2])  # of the traffic, by kind
_GREEN = np.array([0.45, 0.2, 0.45])  # share of a signal's cycle, by kind
_DELTA = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])  # east, north, west, south

# Programmes of the signals: from which minute of the day on, and how many seconds a cycle has.
_PROGRAMMES = np.array([(0, 60), (360, 100), (600, 80), (900, 110), (1140, 60)])
_CROSSING_MS = 4_000  # to drive over a crossing whose signal is green
_VEHICLE_M = 7  # of road that a waiting vehicle takes

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


class City:
    """A square of streets with a signal at every crossing.

    Args:
        side: crossings along one side, 2 or more. There are `4 side (side - 1)` roads, each in one
            direction, and about 2.7 turns a road.
        days: how many days the travel times go back.
        jams: how many turns are blocked for some time between 7:10 and 9:00, on as many roads.
        seed: of all random numbers.

    Raises:
        ValueError: a size is too small, or there are more jams than roads.

    Example:
        >>> city = City(side=3, days=2)
        >>> {name: table.num_rows for name, table in city.tables().items()}
        {'crossings': 9, 'roads': 24, 'turns': 44, 'signals': 135, 'road_times': 6912, \
'turn_times': 12672}
    """

    def __init__(self, side: int = 10, days: int = 5, jams: int = 5, seed: int = 1):
        if side < 2 or days < 1 or jams < 0:
            raise ValueError(
                f"side={side!r}, days={days!r}, jams={jams!r}: side must be 2 or more, days 1 or "
                "more, jams not negative"
            )
        if jams > 4 * side * (side - 1):
            raise ValueError(f"jams={jams!r}: there are {4 * side * (side - 1)} roads")
        self.side, self.days, self.jams, self.seed = side, days, jams, seed
        random = np.random.default_rng([seed, 0])
        self._make_roads(random)
        self._make_turns()
        self._cycle_s = _PROGRAMMES[:, 1] + 5 * random.integers(-2, 3, (side * side, 1))
        self._peak = random.uniform(0.1, 0.8, self.roads)  # how much the rush hours add
        self._block(random)

    @property
    def roads(self) -> int:
        """How many roads there are."""
        return len(self.start)

    @property
    def turns(self) -> int:
        """How many turns there are, from a road into another."""
        return len(self.turn_road)

    def tables(self) -> dict[str, pa.Table]:
        """Make the six tables.

        Returns:
            `crossings` (crossing, name), `roads` (road, name, length_m, limit_kmh), `turns` (turn,
            crossing, kind), `signals` (crossing, kind, from_minute, until_minute, cycle_s, green_s;
            the last programme of a day has no end), `road_times` (road, day, slice, travel_ms) and
            `turn_times` (turn, day, slice, pass_ms): one row for each day and slice.

        Complexity: O(rows); about 0.2 s for a million.
        """
        names = self._names()
        road_ms = self.usual_road_ms(np.arange(self.roads)[:, None], np.arange(SLICES))
        turn_ms = self.usual_turn_ms(np.arange(self.turns)[:, None], np.arange(SLICES))
        return {
            "crossings": pa.table({"crossing": _int32(np.arange(len(names))), "name": names}),
            "roads": pa.table(
                {
                    "road": _int32(np.arange(self.roads)),
                    "name": np.char.add(np.char.add(names[self.start], " → "), names[self.end]),
                    "length_m": _int32(self.length_m),
                    "limit_kmh": _int32(self.limit_kmh),
                }
            ),
            "turns": pa.table(
                {
                    "turn": _int32(np.arange(self.turns)),
                    "crossing": _int32(self.end[self.turn_road]),
                    "kind": _KINDS[self.turn_kind],
                }
            ),
            "signals": self._signals(),
            "road_times": self._history("road", "travel_ms", road_ms, [self.seed, 1]),
            "turn_times": self._history("turn", "pass_ms", turn_ms, [self.seed, 2]),
        }

    def reports(self, rows: int, begin: int = 7 * 60, minutes: int = 120) -> pa.Table:
        """Make the stream: vehicles that have driven a road and made the turn at its end.

        Args:
            rows: how many reports, spread evenly over the time.
            begin: the minute of the day at which they begin.
            minutes: for how long they come; a day ends after 1,440.

        Returns:
            report, road, turn, at (in this order), travel_ms on the road, pass_ms at the crossing,
            stopped_ms of these, queue_m (how far from the signal it had to stop).

        Raises:
            ValueError: the interval is not within one day.

        Complexity: O(rows log turns); about 0.5 s for a million.
        """
        if not 0 <= begin < begin + minutes <= 24 * 60:
            raise ValueError(f"begin={begin!r}, minutes={minutes!r}: give one within a day")
        random = np.random.default_rng([self.seed, 3])
        middle = (self.side - 1) / 2
        far = np.hypot(self.end % self.side - middle, self.end // self.side - middle)
        weight = (np.exp(-far / self.side)[self.turn_road] * _SHARE[self.turn_kind]).cumsum()
        context = np.searchsorted(weight, random.random(rows) * weight[-1], side="right")
        road = self.turn_road[context]
        minute = begin + minutes * np.sort(random.random(rows))
        slices = (minute // MINUTES_PER_SLICE).astype(np.int64)

        jam = self._jam_of[road]
        jammed = (jam >= 0) & (minute >= self.jam_from[jam]) & (minute < self.jam_until[jam])
        factor = np.where(jammed, self.jam_factor[jam], 1.0)
        travel = self.usual_road_ms(road, slices) * factor * random.lognormal(0, 0.15, rows)

        cycle, red = self._signal_ms(context, slices)
        stopped = np.maximum(red - random.random(rows) * cycle, 0.0)
        # Where a turn is blocked its vehicles wait for one cycle after the other.
        blocked = jammed & (self.jam_turn[jam] == context)
        stopped += np.where(blocked, cycle * random.integers(1, 4, rows), 0.0)
        queue = np.where(stopped > 0, random.poisson(stopped / 10_000), 0) * _VEHICLE_M
        at = int(_DAY.timestamp()) * 10**6 + (minute * 60e6).astype(np.int64)
        return pa.table(
            {
                "report": np.arange(rows),
                "road": _int32(road),
                "turn": _int32(context),
                "at": pa.array(at, pa.timestamp("us", tz="UTC")),
                "travel_ms": _int32(travel),
                "pass_ms": _int32(_CROSSING_MS + stopped),
                "stopped_ms": _int32(stopped),
                "queue_m": _int32(queue),
            }
        )

    def usual_road_ms(self, road: Int64s, slices: Int64s) -> Floats:
        """How long a road usually takes in a slice of the day."""
        free = 3600 * self.length_m[road] / self.limit_kmh[road]
        usual: Floats = free * (1.15 + self._peak[road] * _rush(slices))
        return usual

    def usual_turn_ms(self, context: Int64s, slices: Int64s) -> Floats:
        """How long a turn usually takes: who meets a red signal, at any moment of it, waits."""
        cycle, red = self._signal_ms(context, slices)
        return _CROSSING_MS + red**2 / (2 * cycle)

    def _signal_ms(self, context: Int64s, slices: Int64s) -> tuple[Floats, Floats]:
        """The cycle of a turn's signal, and how much of it is red."""
        minute = slices * MINUTES_PER_SLICE
        programme = np.searchsorted(_PROGRAMMES[:, 0], minute, side="right") - 1
        cycle_s = self._cycle_s[self.end[self.turn_road[context]], programme]
        green_s = np.round(cycle_s * _GREEN[self.turn_kind[context]])
        return 1000.0 * cycle_s, 1000.0 * (cycle_s - green_s)

    def _make_roads(self, random: np.random.Generator) -> None:
        place = np.arange(self.side**2)
        xy = np.stack([place % self.side, place // self.side], axis=1)
        next_xy = xy[:, None] + _DELTA
        inside = ((next_xy >= 0) & (next_xy < self.side)).all(axis=2)
        self.start, self.direction = np.nonzero(inside)
        self.end = self.start + _DELTA[self.direction] @ np.array([1, self.side])
        self._leaving = np.full((self.side**2, 4), -1)
        self._leaving[self.start, self.direction] = np.arange(len(self.start))
        self.length_m = random.integers(200, 601, len(self.start))
        self.limit_kmh = random.choice([30, 50, 50, 60], len(self.start))

    def _make_turns(self) -> None:
        into = self._leaving[self.end[:, None], (self.direction[:, None] + _STEP) % 4]
        self.turn_road, self.turn_kind = np.nonzero(into >= 0)

    def _block(self, random: np.random.Generator) -> None:
        """Choose the turns that are blocked on the day of the reports, and from when to when."""
        roads = np.sort(random.choice(self.roads, self.jams, replace=False))
        first = np.searchsorted(self.turn_road, roads)
        last = np.searchsorted(self.turn_road, roads, side="right")
        # One more, which no road has, stands for "no jam".
        self.jam_turn = np.append(random.integers(first, last), -1)
        self.jam_from = np.append(7 * 60 + 10 * random.integers(1, 6, self.jams), 0)
        self.jam_until = self.jam_from + np.append(10 * random.integers(3, 7, self.jams), 0)
        self.jam_factor = np.append(random.uniform(*JAM_FACTOR, self.jams), 1.0)
        self._jam_of = np.full(self.roads, -1)
        self._jam_of[roads] = np.arange(self.jams)

    def _names(self) -> NDArray[np.str_]:
        """East is a number, north a letter: A1 is in the south-west; after Z comes AA."""
        letters = [chr(65 + i) for i in range(26)]
        letters += [a + b for a in letters for b in letters]
        y, x = np.divmod(np.arange(self.side**2), self.side)
        return np.char.add(np.array(letters)[y], (x + 1).astype(str))

    def _signals(self) -> pa.Table:
        shape = (self.side**2, len(_KINDS), len(_PROGRAMMES))
        crossing, kind, programme = (axis.ravel() for axis in np.indices(shape))
        begins = _PROGRAMMES[:, 0]
        ends = pa.array([*begins[1:].tolist(), None], pa.int32())
        cycle_s = self._cycle_s[crossing, programme]
        return pa.table(
            {
                "crossing": _int32(crossing),
                "kind": _KINDS[kind],
                "from_minute": _int32(begins[programme]),
                "until_minute": ends.take(pa.array(programme)),
                "cycle_s": _int32(cycle_s),
                "green_s": _int32(np.round(cycle_s * _GREEN[kind])),
            }
        )

    def _history(self, key: str, value: str, usual: Floats, seed: list[int]) -> pa.Table:
        """One row for each key, day and slice: the usual value, with good days and bad ones."""
        random = np.random.default_rng(seed)
        keys = len(usual)
        noise = random.lognormal(0, 0.05, (keys, self.days, SLICES)).astype(np.float32)
        measured = usual[:, None, :] * random.lognormal(0, 0.05, (self.days, 1)) * noise
        which, day, slices = (axis.ravel() for axis in np.indices(measured.shape, np.int32))
        return pa.table({key: which, "day": day, "slice": slices, value: _int32(measured.ravel())})


def _rush(slices: Int64s) -> Floats:
    """How much of the rush hours, about 8:00 and 17:30, there is in a slice."""
    hour = (slices + 0.5) * MINUTES_PER_SLICE / 60
    return np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17.5) ** 2) / 3)


def _int32(numbers: NDArray[np.generic]) -> NDArray[np.int32]:
    return numbers.astype(np.int32)
