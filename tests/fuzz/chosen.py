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
    -8, 9, -18, 19, 227, 321, 641, 1152, -1158, 1158, 1600, 1605, 1614, 1615, -1620, 1619, 1622,
    -1631, -1636, 1637, 1665, -1680, 1702, 1751, 2143, 2368, -2398, 2689, -3331, -3339, -3348, 3347,
    -3359, 3358, 4480, -4497, 4496, -4498, -4751, -4772, 5060, -5065, 5064, 5067, -5698, 5902, 5924,
    -5958, 5969, 6161, 6605, -6618, 6617, -6723, 6722, -6758, -6918, -6919, 7299, -7516, 7515, 7943,
    7961, -7971, 8066, 8079, -8099, 8098, 8394, 8396, 9616, 11329, 11584, 11585, -11591, 11590,
    11598, -13569, 17349, -17409, -17427, 25610, 25617, 34524,
)  # fmt: skip
"""Small cases of few rounds: each fault shows in one of them (:mod:`tests.fuzz.find_faults`)."""
LATER_KEYS = (69376, -69377, 72849, -72850, 72862, -72863, 72863, -72864)
"""Cases of kinds that the rounds of these faults lack, each with both runtimes."""
ROUNDS = [*dict.fromkeys(max(key, ~key) // SEEDS_A_ROUND for key in (*KEYS, *LATER_KEYS))]


@cache
def chosen() -> dict[int, dict[int, Case]]:
    """The cases by their rounds and keys."""
    return {number: cases_of((*KEYS, *LATER_KEYS), number) for number in ROUNDS}


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
