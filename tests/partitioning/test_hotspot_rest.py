"""A constant load brings the rules to rest, whatever it is; another load is followed."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from steady_loads import Load, run

from bsjoin.partitioning import Controller, HotSpot, chance

MOST_CHANGES = 5

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


@settings(max_examples=60)
@given(loads, ways)
def test_a_constant_load_brings_the_rules_to_rest(load: Load, options: dict[str, object]) -> None:
    controller = Controller(HotSpot(**options))  # type: ignore[arg-type]
    changes, _ = run(controller, map(load.cycle, range(80)))
    assert len(changes) <= MOST_CHANGES


@settings(max_examples=25)
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


def test_a_slow_drift_is_followed() -> None:
    controller = Controller(HotSpot(partitions=8))
    cycles = (Load(0.01 * number, 1, 20_000, 0).cycle(number) for number in range(60))
    changes, skews = run(controller, cycles)
    assert len(changes) >= 2
    assert max(skews) < 0.3
    assert all(math.isfinite(one) for one in skews)
