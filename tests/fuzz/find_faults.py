"""Whether the cases that `test_fuzz.py` runs find each deliberate fault: all in one session.

python -m tests.fuzz.find_faults [--search] [NUMBER or PART OF A NAME ...]

A change of what is drawn makes other cases of the same keys. Where a fault is missed, ``--search``
looks for a case that finds it, first in the rounds whose tables are built anyway, and prints its
key, for `chosen.py`. Only cases in which the fault may show are run (:mod:`tests.fuzz.aim`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from tests.fuzz.aim import may_show, reaches
from tests.fuzz.case import Case
from tests.fuzz.chosen import KEYS, ROUNDS, chosen, with_each_runtime
from tests.fuzz.faulty import FaultySession, HarnessError
from tests.fuzz.mutants import MUTANTS, Mutant

_BSJOIN = Path(__file__).resolve().parent.parent.parent / "bsjoin"
_ROUNDS, _FEW = 300, 3
_with_each_runtime = cache(with_each_runtime)


def main(only: list[str]) -> int:
    """Run the cases with each fault; 1 if one is not found."""
    searching, only = "--search" in only, [one for one in only if one != "--search"]
    faults = {
        number: mutant
        for number, mutant in enumerate(MUTANTS)
        if not only or any(one == str(number) or one in mutant.name for one in only)
    }
    session, missed = FaultySession([(ROUNDS[0], [*chosen()[ROUNDS[0]]])]), 0
    for number, mutant in faults.items():
        begun = time.monotonic()
        text = mutant.applied((_BSJOIN / mutant.file).read_text())
        try:
            told = session.run(mutant.file, text, _places(mutant, searching))
        except HarnessError as error:
            told = f"BROKEN {error}"
        missed += told.startswith("BROKEN") or not told
        spent = time.monotonic() - begun
        print(f"{number:3} {spent:4.0f} s  {mutant.name}: {told or 'MISSED'}", flush=True)
    print(f"{missed} of {len(faults)} missed")
    return int(missed > 0)


def _places(mutant: Mutant, searching: bool) -> Iterator[tuple[int, list[int]]]:
    """The chosen cases in which a fault may show; then those that reach it, or all others."""
    rest = []
    for number, cases in chosen().items():
        first = [key for key, case in cases.items() if may_show(mutant, case)]
        yield number, first
        others = [key for key in cases if key not in first]
        rest.append((number, [key for key in others if reaches(mutant, cases[key])]))
    if not searching:
        yield from rest
        return
    for number in dict.fromkeys([*ROUNDS, *range(_ROUNDS)]):
        drawn: dict[int, Case] = _with_each_runtime(number)
        shown = (key for key in drawn if key not in KEYS and may_show(mutant, drawn[key]))
        yield number, [*islice(shown, _FEW)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
