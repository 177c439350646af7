"""A constant load brings the rules to rest, whatever it is; another load is followed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import Collector, Controller, HotSpot, Router, added, chance

Codes = np.ndarray

NOISE = 0.03
MOST_CHANGES = 5


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


loads = st.builds(
    Load,
    share=st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0) | st.floats(0.0, 0.1),
    hot=st.sampled_from([1, 1, 2, 3, 10, 50]),
    rows=st.floats(1.5, 4.0).map(lambda power: round(10**power)),
    kinds=st.sampled_from([0, 1, 1, 2, 5]),
    seed=st.integers(0, 1 << 30),
    cold=st.sampled_from([5, 100, 10_000]),
)
ways = st.fixed_dictionaries(
    {
        "partitions": st.sampled_from([2, 3, 4, 8, 16, 64, 128]),
        "sample": st.sampled_from([100, 500, 2_000, 10_000]),
        "threshold": st.sampled_from([0.02, 0.1, 0.1]),
        "smoothing": st.sampled_from([0.0, 0.5, 0.9]),
        "min_cycles": st.sampled_from([1, 2]),
    },
    optional={"split_hot_keys": st.just(False)},
) | st.fixed_dictionaries(
    {"partitions": st.sampled_from([2, 8, 128]), "rule": st.just("algorithm_2")}
)


@settings(max_examples=2)
@given(loads, ways)
def test_a_constant_load_brings_the_rules_to_rest(load: Load, options: dict[str, object]) -> None:
    controller = Controller(HotSpot(**options))  # type: ignore[arg-type]
    changes, _ = run(controller, map(load.cycle, range(80)))
    assert len(changes) <= MOST_CHANGES


@settings(max_examples=2)
@given(
    before=loads,
    share=st.floats(0.3, 0.9),
    hot=st.integers(1, 10),
    partitions=st.sampled_from([2, 4, 8, 32]),
    seed=st.integers(0, 1 << 30),
)
def test_another_load_is_followed_within_two_cycles(
    before: Load, share: float, hot: int, partitions: int, seed: int
) -> None:
    """Also after one that no rule could make even, or none but by chance."""
    options = HotSpot(partitions=partitions, sample=2_000)
    controller = Controller(options)
    run(controller, map(before.cycle, range(8)))
    after = Load(share, hot, 20_000, kinds=0, seed=seed)
    _, skews = run(controller, map(after.cycle, range(5)))
    # One cycle may have to pass before the rule may change again.
    assert max(skews[2:]) < options.threshold + 4 * chance(partitions, after.rows)
