"""Drawn cases that show what the deliberate faults need: an ordinary test runs them.

What each fault of :mod:`tests.fuzz.mutants` needs is met several times, and so is each word of
:mod:`tests.fuzz.words` with each runtime. Which cases these are is found anew whenever something
else is drawn.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache

from tests.fuzz.case import Case
from tests.fuzz.draw import draw_round
from tests.fuzz.mutants import MUTANTS
from tests.fuzz.words import has_all, wanted, words

__all__ = ["chosen", "shown_by", "with_each_runtime"]

# Those in which most is seen come first.
_FIRST = (1, 10, 27, 31, 43, 52, 69, 70, 91, 97, 123, 127, 129, 131, 136, 137, 149, 159, 217, 330)
_ROUNDS = dict.fromkeys([*_FIRST, *range(400)])
_FAULTS = {mutant.name: wanted(mutant.file, mutant.needs) for mutant in MUTANTS}
_OF_A_FAULT, _OF_A_WORD = 6, 2
"""How many cases are to have what a fault needs, and how many a word."""


@cache
def chosen() -> dict[int, dict[int, Case]]:
    """Cases by round and key (:func:`with_each_runtime`).

    Each round gives its cases in the order of how much they show that was shown too rarely, until
    there is what each fault needs.
    """
    left: defaultdict[str, int] = defaultdict(lambda: _OF_A_WORD)
    left.update(dict.fromkeys(_FAULTS, _OF_A_FAULT))
    found: dict[int, dict[int, Case]] = {}
    for number in _ROUNDS:
        if not any(left[name] for name in _FAULTS):
            break
        drawn = {key: (case, shown_by(case)) for key, case in with_each_runtime(number).items()}
        while drawn:
            key = max(drawn, key=lambda one: sum(left[item] > 0 for item in drawn[one][1]))
            case, shown = drawn.pop(key)
            if not any(left[item] for item in shown):
                break
            for item in shown:
                left[item] = max(0, left[item] - 1)
            found.setdefault(number, {})[key] = case
    return found


def shown_by(case: Case) -> set[str]:
    """The faults that a case has all for that they need, and its words with the runtime."""
    found: set[str] = set()
    for number, join in enumerate(case.joins):
        there = words(case, number)
        found |= {name for name, needed in _FAULTS.items() if has_all(there, needed)}
        found |= {f"{word}, {join.runtime}" for word in there}
    return found


def with_each_runtime(number: int) -> dict[int, Case]:
    """The cases of a round by their keys: the seed with the JVM's runtime, else its complement."""
    found = {}
    for seed, case in draw_round(number).cases.items():
        for key, runtime in ((seed, "jvm"), (~seed, "python")):
            joins = tuple(replace(join, runtime=runtime) for join in case.joins)
            found[key] = replace(case, joins=joins)
    return found
