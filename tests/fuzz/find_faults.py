"""Whether the cases that `test_fuzz.py` runs find each deliberate fault: all in one session.

python -m tests.fuzz.find_faults [--search] [NUMBER or PART OF A NAME ...]

Where the chosen cases miss a fault, ``--search`` draws whole rounds until a case finds it, and
prints its key, for `chosen.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.chosen import ROUNDS, chosen, with_each_runtime
from tests.fuzz.faulty import FaultySession, HarnessError
from tests.fuzz.mutants import MUTANTS, Mutant

_BSJOIN = Path(__file__).resolve().parent.parent.parent / "bsjoin"
_SEARCHED = 300  # rounds


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
    """The cases in which a fault may show, the other chosen ones, and then all of many rounds."""
    for first in (True, False):
        for number, cases in chosen().items():
            yield number, [key for key in cases if (key in mutant.cases) == first]
    if searching:
        yield from ((number, [*with_each_runtime(number)]) for number in range(_SEARCHED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
