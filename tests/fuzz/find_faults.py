"""Whether the cases that `test_fuzz.py` runs find each deliberate fault: all in one session.

python -m tests.fuzz.find_faults [--search] [NUMBER or PART OF A NAME ...]

A change of what is drawn makes other cases of the same keys. Where a fault is missed, ``--search``
looks in round after round for a case that finds it, and prints the key, for `chosen.py`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz.chosen import chosen, with_each_runtime
from tests.fuzz.faulty import FaultySession, HarnessError
from tests.fuzz.mutants import MUTANTS, Mutant

_BSJOIN = Path(__file__).resolve().parent.parent.parent / "bsjoin"
_ROUNDS = 300
Place = tuple[int, list[int]]


def main(only: list[str]) -> int:
    """Run the cases with each fault; 1 if one is not found."""
    searching, only = "--search" in only, [one for one in only if one != "--search"]
    faults = {
        number: mutant
        for number, mutant in enumerate(MUTANTS)
        if not only or any(one == str(number) or one in mutant.name for one in only)
    }
    places = [(number, [*cases]) for number, cases in chosen().items()]
    session, missed = FaultySession(places[:1]), 0
    for number, mutant in faults.items():
        begun = time.monotonic()
        text = mutant.applied((_BSJOIN / mutant.file).read_text())
        try:
            told = session.run(mutant.file, text, _own_first(mutant, places))
            if not told and searching:
                others = ((number, [*with_each_runtime(number)]) for number in range(_ROUNDS))
                told = session.run(mutant.file, text, others)
        except HarnessError as error:
            told = f"BROKEN {error}"
        missed += told.startswith("BROKEN") or not told
        spent = time.monotonic() - begun
        print(f"{number:3} {spent:4.0f} s  {mutant.name}: {told or 'MISSED'}", flush=True)
    print(f"{missed} of {len(faults)} missed")
    return int(missed > 0)


def _own_first(mutant: Mutant, places: list[Place]) -> list[Place]:
    """The cases whose joins run where the fault is, before the others."""
    in_jvm = mutant.file.endswith(".java")
    own = [(number, [key for key in keys if (key >= 0) == in_jvm]) for number, keys in places]
    others = [(number, [key for key in keys if (key >= 0) != in_jvm]) for number, keys in places]
    return [*own, *others]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
