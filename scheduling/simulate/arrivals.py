"""What comes in: rows that have arrived by a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.errors import ArgumentError


class Arrivals:
    """A curve of rows a second, with noise, as the rows that have arrived by a time.

    Args:
        curve: rows a second; or pairs of a second and the rows a second there, ascending, linear
            between and constant outside. Two pairs of one second make a jump.
        noise: each second's rate is multiplied by 1 + ``noise`` x U(-1, 1); in [0, 1], default 0.
        seed: of the noise; default 0.
        horizon_s: seconds that are drawn; the last rate goes on after them. Default one day.

    Example:
        >>> rows = Arrivals([(0, 100), (10, 100), (10, 300)])
        >>> rows(10.0), rows(12.0), rows.second(1_600.0)
        (1000.0, 1600.0, 12.0)
    """

    def __init__(
        self, curve: float | Sequence[tuple[float, float]], *,
        noise: float = 0.0, seed: int = 0, horizon_s: int = 86_400,
    ) -> None:  # fmt: skip
        points = [(0.0, float(curve))] if isinstance(curve, int | float) else list(curve)
        seconds, rates = np.array([at for at, _ in points]), np.array([rate for _, rate in points])
        if not (len(points) and (rates >= 0).all() and (np.diff(seconds) >= 0).all()):
            raise ArgumentError(f"curve={curve!r}: give rates of at least 0 at ascending seconds")
        if not 0 <= noise <= 1:
            raise ArgumentError(f"noise={noise!r}: give a share of the rate, in [0, 1]")
        self._rates = np.interp(np.arange(horizon_s) + 0.5, seconds, rates)
        self._rates *= 1 + noise * np.random.default_rng(seed).uniform(-1, 1, horizon_s)
        self._sums = np.concatenate([[0.0], np.cumsum(self._rates)])

    def __call__(self, time_s: float) -> float:
        """The rows that have arrived by a time."""
        at = min(int(max(time_s, 0.0)), len(self._rates) - 1)
        return float(self._sums[at] + self._rates[at] * (max(time_s, 0.0) - at))

    def second(self, rows: float) -> float:
        """When that many rows had arrived."""
        if rows >= self._sums[-1] and self._rates[-1] > 0:
            return float(len(self._rates) + (rows - self._sums[-1]) / self._rates[-1])
        return float(np.interp(rows, self._sums, np.arange(len(self._sums))))
