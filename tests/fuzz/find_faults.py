"""Whether the cases that `test_fuzz.py` runs find each deliberate fault: all in one session.

python -m tests.fuzz.find_faults [NUMBER or PART OF A NAME ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz.chosen import chosen, shown_by
from tests.fuzz.faulty import FaultySession, HarnessError
from tests.fuzz.mutants import MUTANTS

_BSJOIN = Path(__file__).resolve().parent.parent.parent / "bsjoin"


def main(only: list[str]) -> int:
    """Run the cases that can show a fault, with each; 1 if one is not found."""
    faults = {
        number: mutant
        for number, mutant in enumerate(MUTANTS)
        if not only or any(one == str(number) or one in mutant.name for one in only)
    }
    able: dict[str, dict[int, list[int]]] = {mutant.name: {} for mutant in MUTANTS}
    for number, cases in chosen().items():
        for key, case in cases.items():
            for name in shown_by(case) & able.keys():
                able[name].setdefault(number, []).append(key)
    first = {number: list(cases)[:4] for number, cases in list(chosen().items())[:1]}
    session, missed = FaultySession(first), 0
    for number, mutant in faults.items():
        begun = time.monotonic()
        text = mutant.applied((_BSJOIN / mutant.file).read_text())
        try:
            told = session.run(mutant.file, text, able[mutant.name]) or "MISSED"
        except HarnessError as error:
            told = f"BROKEN {error}"
        missed += told.startswith(("MISSED", "BROKEN"))
        print(f"{number:3} {time.monotonic() - begun:4.0f} s  {mutant.name}: {told}", flush=True)
    print(f"{missed} of {len(faults)} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
