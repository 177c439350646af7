"""Drawn cases that find the deliberate faults: an ordinary test runs them.

A case is named by its key: its seed where its joins run in the JVM, the complement of that where
they run in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from tests.fuzz.case import Case
from tests.fuzz.draw import SEEDS_A_ROUND, draw_round

KEYS = (
    1742, 4416, -4417, 4419, -4423, 4425, -4426, 4428, -4434, -4438, 4437, 4444, 4452, -4453,
    -4481, 4480, 4507, 4515, -4516, 4616, -4617, 7872, -7873, 7877, -7878, -8259, 8258, -8261,
    8260, 8263, -8268, -8277, 8276, 8770, 8776, 8962, -8968, 8967, 8968, -8969, 8969, -8970, -8978,
    8977, -8979, 8978, 8986, -8997, 8996, 9616, -9617, -9729, -9736, -9745, -9749, 13057, -13058,
    13060, 13063, 13073, -13074, 13078, 13084, -13085, 13088, 13090, -13442, 13441, 13454, -13455,
    -13459, 13464, 13466, -13467, -13479, 13478, 13827, -13828, 13835, -13836, -15114, 15680,
    -15681, 15681, 15683, -15684, 15686, -15687, -15692,
)  # fmt: skip
"""Each fault has four of them with all that it needs: such a condition, value, type, or cache."""
ROUNDS = [*dict.fromkeys(max(key, ~key) // SEEDS_A_ROUND for key in KEYS)]
LATER = (27, 69, 70, 72, 123, 245)
"""Rounds that take most of the time, as with several micro-batches: `make long` runs them."""


@cache
def chosen() -> dict[int, dict[int, Case]]:
    """The cases by their rounds and keys."""
    return {number: cases_of(KEYS, number) for number in ROUNDS}


def cases_of(keys: Sequence[int], number: int) -> dict[int, Case]:
    """Those cases of a round that some keys name."""
    places = [divmod(max(key, ~key), SEEDS_A_ROUND) for key in keys]
    most = max((place + 1 for where, place in places if where == number), default=0)
    return {key: case for key, case in with_each_runtime(number, most).items() if key in keys}


def with_each_runtime(number: int, most: int = SEEDS_A_ROUND) -> dict[int, Case]:
    """The first cases of a round, each with both runtimes."""
    found = {}
    for seed, case in draw_round(number, most).items():
        for key, runtime in ((seed, "jvm"), (~seed, "python")):
            joins = tuple(replace(join, runtime=runtime) for join in case.joins)
            found[key] = replace(case, joins=joins)
    return found
