"""Whether some test files find deliberate faults, one at a time: of the fuzz, layers and ranges.

    python -m tests.mutants --suite tests/test_oracle_ranges.py --only nearest "a band"

Each fault is written into a copy of the checkout, in which pytest runs the files up to the first
failure. A suite that is thinned has to find what it found before.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.mutants import MUTANTS
from tests.layer_mutants import LAYER_MUTANTS
from tests.range_mutants import RANGE_MUTANTS

_ROOT = Path(__file__).resolve().parent.parent
_COPIED = ("bsjoin", "scheduling", "tests", "benchmarks", "docs", "examples", "scripts")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def first_failure(tree: Path, suite: Sequence[str]) -> str:
    """The first test of some files that fails in a copy of the checkout; empty if none does.

    Raises:
        RuntimeError: pytest found no tests, or ended in another way.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--hypothesis-profile", "unshrunk", *suite],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "CI": "true"},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return ""
    found = _FAILED.search(done.stdout)
    if done.returncode != 1 or found is None:
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return found.group(1)


def copied(folder: Path) -> Path:
    """A copy of the checkout without what is compiled."""
    tree = folder / "tree"
    for name in _COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "*.jar", "results")
        shutil.copytree(_ROOT / name, tree / name, ignore=ignored)
    for file in _ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy(file, tree)
    return tree


def main() -> int:
    """Run the suite with each fault; 1 if one is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--suite", nargs="+", required=True, help="test files, or tests of them")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of faults")
    arguments = parser.parse_args()
    everything = [*MUTANTS, *LAYER_MUTANTS, *RANGE_MUTANTS]
    chosen = [m for m in everything if any(text in m.name for text in arguments.only)]
    found = 0
    with tempfile.TemporaryDirectory(prefix="bsjoin-mutants-") as folder:
        tree = copied(Path(folder))
        if failed := first_failure(tree, arguments.suite):
            raise SystemExit(f"without a fault {failed} fails")
        for mutant in chosen:
            file, begun = tree / "bsjoin" / mutant.file, time.monotonic()
            text = file.read_text()
            file.write_text(mutant.applied(text))
            try:
                told = first_failure(tree, arguments.suite)
            finally:
                file.write_text(text)
            found += bool(told)
            spent = time.monotonic() - begun
            print(f"{spent:4.0f} s  {mutant.name}: {told or 'MISSED'}", flush=True)
    print(f"{found} of {len(chosen)} found")
    return int(found < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
