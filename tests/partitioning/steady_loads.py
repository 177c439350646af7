"""Loads that stay what they are, but for their noise; and the rules that a controller makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import Collector, Controller, Router, added

Codes = np.ndarray

NOISE = 0.03


@dataclass(frozen=True)
class Load:
    """What arrives in a cycle: some keys have a share of the rows, the others are many.

    Args:
        share: of the rows with hot keys.
        hot: how many such keys there are; they are equally frequent.
        rows: of a cycle.
        kinds: how many different rows a hot key has; 0: all are different.
        seed: another seed, other keys.
        cold: how many other keys there are.
    """

    share: float
    hot: int
    rows: int
    kinds: int
    seed: int = 0
    cold: int = 10_000
    codes: Codes = field(init=False, compare=False, repr=False)
    contents: Codes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng((self.seed, 1))
        draw = lambda size: random.integers(LEAST, GREATEST, size)  # noqa: E731
        object.__setattr__(self, "codes", draw(self.hot + self.cold))
        object.__setattr__(self, "contents", draw((self.hot, max(self.kinds, 1))))

    def cycle(self, number: int) -> tuple[Codes, Codes]:
        """The codes and the contents of the rows of a cycle; every share has its noise."""
        random = np.random.default_rng((self.seed, 2, number))
        size = max(1, round(self.rows * (1 + random.uniform(-NOISE, NOISE))))
        shares = self.share / self.hot * (1 + random.uniform(-NOISE, NOISE, self.hot))
        shares = np.append(shares, 1 - self.share)
        key = random.choice(self.hot + 1, size, p=shares / shares.sum())
        key = np.where(key < self.hot, key, random.integers(self.hot, len(self.codes), size))
        contents = random.integers(LEAST, GREATEST, size)
        alike = (key < self.hot) & (self.kinds > 0)
        kind = random.integers(0, max(self.kinds, 1), size)
        contents[alike] = self.contents[key[alike], kind[alike]]
        return self.codes[key], contents


def run(
    controller: Controller, cycles: Iterable[tuple[Codes, Codes]], tasks: int = 2
) -> tuple[list[int], list[float]]:
    """Let cycles pass: after which of them the rule changed, and the skew of each."""
    changes, skews = [], []
    for number, (codes, contents) in enumerate(cycles):
        router, parts = Router(controller.rule), []
        for task in range(tasks):
            collector = Collector(router, controller.capacity, (number, task))
            collector.route(codes[task::tasks], contents[task::tasks])
            parts.append(collector.statistics())
        statistics = added(parts)
        skews.append(statistics.skew)
        if controller.observe(statistics) is not None:
            changes.append(number)
    return changes, skews
