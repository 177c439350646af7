"""Whether some test files find deliberate faults: those of the fuzz, one at a time.

    python -m tests.mutants --suite tests/test_oracle_ranges.py --only nearest "a band"

Each fault is written into a copy of the checkout, in which pytest runs the files up to the first
failure. A suite that is thinned has to find what it found before: the command writes what each
fault was found by, and with ``--before`` it fails if one is missed now that was found then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.mutants import MUTANTS, Mutant

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


def chosen(only: Sequence[str]) -> list[Mutant]:
    """The faults whose names have one of some texts in them; all if there are none."""
    return [m for m in MUTANTS if not only or any(text in m.name for text in only)]


def main() -> int:
    """Run the suite with each fault; 1 if one is missed that was found before."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--suite", nargs="+", required=True, help="test files, or tests of them")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of faults")
    parser.add_argument("--passes", action="store_true", help="the suite is known to pass")
    parser.add_argument("--results", type=Path, help="where to write what found each fault")
    parser.add_argument("--before", type=Path, help="such a file of an earlier run")
    arguments = parser.parse_args()
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bsjoin-mutants-") as folder:
        tree = copied(Path(folder))
        if not arguments.passes and (failed := first_failure(tree, arguments.suite)):
            raise SystemExit(f"without a fault {failed} fails")
        for mutant in chosen(arguments.only):
            file, begun = tree / "bsjoin" / mutant.file, time.monotonic()
            text = file.read_text()
            file.write_text(mutant.applied(text))
            try:
                found[mutant.name] = first_failure(tree, arguments.suite)
            finally:
                file.write_text(text)
            told = found[mutant.name] or "MISSED"
            print(f"{time.monotonic() - begun:4.0f} s  {mutant.name}: {told}", flush=True)
            if arguments.results is not None:
                arguments.results.write_text(json.dumps(found, indent=1) + "\n")
    lost = [name for name, test in before.items() if test and found.get(name) == ""]
    print(f"{sum(map(bool, found.values()))} of {len(found)} found; lost: {lost or 'none'}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
