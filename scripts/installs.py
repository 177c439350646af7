"""Try bsjoin as users install it: its packages in empty environments, with every Python and Spark.

    python scripts/installs.py [--list] [--only TEXT] [--quick]

The source distribution is made of this checkout, and a wheel of it without a JDK. For each row a
new virtual environment gets the plain package, which must bring no PySpark, then ``bsjoin[spark]``
with one version of Spark. It runs ``tests/smoke_installed.py`` in an empty folder, without being
activated and without a setting but that of a quick start, and is removed again. In the first row
the plain package is also packed as an archive, and an application submitted with that to a cluster
whose Python has no bsjoin (``tests/smoke_submitted.py``). With --quick there is one row, of a wheel
that is made of this checkout itself, and nothing is submitted. The exit status is 1 if a row
failed, or that one is absent.
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bootstrap import ensure_java
from environments import ROOT
from matrix import VALUES, outcome, pythons

PROGRAM = ROOT / "tests" / "smoke_installed.py"
SUBMITTED = ROOT / "tests" / "smoke_submitted.py"
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


class FailedError(Exception):
    """A command that failed; its text is the end of what the command printed."""


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise FailedError(f"{' '.join(command)}\n{done.stdout[-3_000:]}")
    return done.stdout


def made(folder: Path, python: str, *, quick: bool) -> Path:
    """The wheel, of a source distribution of this checkout, made where there is no JDK."""
    kind = "wheel" if quick else "sdist"
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)], ROOT)
    for source in folder.glob("bsjoin-*.tar.gz"):
        (empty := folder / "bin").mkdir()
        without = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        command = [python, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), str(source)]
        run(command, folder, {**without, "PATH": str(empty)})
    (wheel,) = folder.glob("bsjoin-*.whl")
    return wheel


def packed(own: str, folder: Path) -> Path:
    """The archive that the workers of a cluster get, as docs/how-to/cluster.md makes it."""
    run([own, *PIP, "venv-pack", "setuptools<81"], folder)
    archive = folder / "environment.tar.gz"
    pack = [str(Path(own).with_name("venv-pack")), "-q", "-p", str(folder / "venv")]
    run([*pack, "--compress-level", "1", "-o", str(archive)], folder)
    return archive


def tried(python: str, spark: str, wheel: Path, java: str, *, submits: bool) -> str:
    """Install and run one row; what failed, an empty text if nothing did."""
    with tempfile.TemporaryDirectory(prefix="bsjoin-installs-") as name:
        folder = Path(name)
        (empty := folder / "empty").mkdir()
        own = str(folder / "venv" / "bin" / "python")
        try:
            run([python, "-m", "venv", "venv"], folder)
            run([own, *PIP, str(wheel)], folder)
            found = run([own, "-m", "pip", "list", "--format", "freeze"], folder)
            for package in ("pyspark", "py4j", "pandas"):
                if f"\n{package}" in f"\n{found}".lower():
                    return f"`pip install bsjoin` installed {package}"
            archive = packed(own, folder) if submits else None
            run([own, *PIP, f"bsjoin[spark] @ {wheel.as_uri()}", f"pyspark=={spark}.*"], folder)
            kept = {
                name: value
                for name, value in os.environ.items()
                if name not in ("PYSPARK_PYTHON", "PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV")
            }
            path = os.pathsep.join([str(Path(java) / "bin"), os.defpath])
            settings = {**kept, "JAVA_HOME": java, "PATH": path, "TMPDIR": str(empty)}
            settings["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"  # for jobs of seconds
            run([own, str(shutil.copy(PROGRAM, folder))], empty, settings)
            if archive is not None:
                run([own, str(shutil.copy(SUBMITTED, folder)), str(archive)], empty, settings)
        except FailedError as error:
            return str(error)
    return ""


def rows(interpreters: dict[str, str], quick: bool) -> Iterator[tuple[str, str]]:
    """Python and Spark of each row.

    Quick: the oldest Python that is here, and a Spark that is neither the newest, which the tests
    run with, nor the oldest, which ``scripts/matrix.py --quick`` tries.
    """
    if quick:
        oldest = VALUES["python"][0]
        found = next((python for python in VALUES["python"] if python in interpreters), oldest)
        yield found, VALUES["spark"][-2]
    else:
        yield from itertools.product(VALUES["python"], VALUES["spark"])


def main() -> int:
    """Try the rows and print them; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="try bsjoin's packages in empty environments")
    parser.add_argument("--list", action="store_true", help="print the rows and do nothing")
    parser.add_argument("--only", default="", help="rows with this text, such as '3.13 4.2'")
    parser.add_argument("--quick", action="store_true", help="one row")
    given = parser.parse_args()
    interpreters, java = pythons(), ensure_java(may_install=False)
    failed = 0
    print("python spark")
    with tempfile.TemporaryDirectory(prefix="bsjoin-installs-") as folder:
        wheel = None
        for python, spark in rows(interpreters, given.quick):
            named = f"{python} {spark}"
            if given.only not in named:
                continue
            told = ""
            if python not in interpreters:
                told = f"absent: no Python {python} on this machine"
            elif not given.list:
                begun = time.monotonic()
                submits = wheel is None and not given.quick
                wheel = wheel or made(Path(folder), interpreters[python], quick=given.quick)
                why = tried(interpreters[python], spark, wheel, java, submits=submits)
                failed += bool(why)
                told = outcome(why, begun)
            failed += given.quick and told.startswith("absent")
            print(f"{named}: {told}" if told else named, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
