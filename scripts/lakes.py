"""Run tests/lakes with each Spark that Delta or Iceberg supports, at the same time.

    python scripts/lakes.py [--quick] [PYTEST ARGUMENT ...]

The installed Spark is too new for both. The versions that they support stand in front of the
installed packages, and Maven fetches the jars. Where a version has both, they share a session. With
--quick only that one runs, without the tests that are marked ``long``. Whatever else is missing is
an error.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from environments import ROOT, installed

LAKES = {"4.1": "delta,iceberg", "4.2": "delta"}
QUICK = {"4.1": LAKES["4.1"]}


def started(spark: str, lakes: str, arguments: list[str]) -> subprocess.Popen[str]:
    """Begin to run the tests with a version of Spark."""
    folder = installed([f"pyspark=={spark}.*"], apart=False)
    if folder is None:
        sys.exit(f"lakes: Spark {spark} cannot be installed: see pip's message above.")
    settings = {
        "BSJOIN_LAKES": lakes,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
    }
    # Spark 4.1 leaves the sockets of results open, which a test would be blamed for.
    kinds = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
    ignored = [f"--pythonwarnings=ignore::{kind}" for kind in kinds]
    options = ["-q", "-p", "no:cacheprovider", *ignored, "tests/lakes", *arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def main() -> int:
    """Run the tests; 1 if some failed."""
    given = sys.argv[1:]
    is_quick = "--quick" in given
    arguments = ["-m", "not long" if is_quick else "long or not long"]
    arguments += [one for one in given if one != "--quick"]
    every = QUICK if is_quick else LAKES
    running = {spark: started(spark, lakes, arguments) for spark, lakes in every.items()}
    with ThreadPoolExecutor() as waiting:
        printed = waiting.map(lambda process: process.communicate()[0], running.values())
        for spark, text in zip(running, printed, strict=True):
            print(f"Spark {spark}, {every[spark]}:", text, sep="\n", flush=True)
    return int(any(process.returncode for process in running.values()))


if __name__ == "__main__":
    sys.exit(main())
