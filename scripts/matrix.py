"""Try bsjoin with every Python, Spark and Java that it supports, classic and under Connect.

    python scripts/matrix.py [--list] [--only TEXT] [--quick]

Each combination is a row: its packages are installed into the user's cache folder once, then
``tests/smoke.py`` runs every kind of join and touches every private member of Spark that bsjoin
does, and where that is classic ``tests/smoke_pins.py`` pins tasks on a cluster. The rows are chosen
so that any two values of different
columns are together in at least one of them; all combinations would be ten times as many. A row
whose Python or Java this machine does not have is listed as absent. With --quick there is one row,
of the oldest versions that pyproject.toml admits, without the pins. The exit status is 1 if a row
failed, or that one is absent.
"""

import argparse
import glob
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from bootstrap import ensure_java, ensure_venv_modules, installed_javas
from environments import installed, oldest, required, start

EXTRAS = (
    "spark", "adbc", "delta", "duckdb", "exact", "iceberg", "mysql", "opentelemetry", "postgresql",
    "redis", "scheduling",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One combination of versions."""

    python: str
    spark: str
    java: str
    dependencies: str
    pandas: str
    api: str

    @property
    def is_possible(self) -> bool:
        """Whether such packages exist: the oldest ones are older than the newer Pythons."""
        return self.dependencies == "newest" or (
            self.python == "3.11" and self.pandas == "2" and self.spark == "4.1"
        )


VALUES = {
    "python": ("3.11", "3.12", "3.13", "3.14"),
    "spark": ("4.1", "4.2", "4.3"),
    "java": ("17", "21"),
    "dependencies": ("newest", "oldest"),
    "pandas": ("2", "3"),
    "api": ("classic", "connect"),
}


def rows() -> list[Row]:
    """Rows that have every possible pair of values: each time the one with most new pairs."""
    combined = itertools.starmap(Row, itertools.product(*VALUES.values()))
    possible = [row for row in combined if row.is_possible]
    missing = {pair for row in possible for pair in pairs(row)}
    chosen = []
    while missing:
        best = max(possible, key=lambda row: len(missing.intersection(pairs(row))))
        missing.difference_update(pairs(best))
        chosen.append(best)
    return sorted(chosen, key=astuple)


def oldest_of(javas: Collection[str]) -> Row:
    """The oldest versions that pyproject.toml admits, with this Python and the oldest Java here."""
    java = next(version for version in VALUES["java"] if version in javas)
    python = "{}.{}".format(*sys.version_info)
    return Row(python, VALUES["spark"][0], java, "oldest", "2", "classic")


def pairs(row: Row) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The pairs of a row's values, each with the name of its column."""
    named = [(field.name, getattr(row, field.name)) for field in fields(row)]
    return itertools.combinations(named, 2)


def pythons() -> dict[str, str]:
    """The interpreters of this machine, by version."""
    found = {}
    for version in VALUES["python"]:
        homes = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
        path = shutil.which(f"python{version}")
        working = filter(None, map(program, filter(None, (path, *reversed(homes)))))
        if one := next(working, None):
            found[version] = one
    return found


def program(python: str) -> str:
    """The interpreter itself, where a command may be a script that starts it; empty if it fails.

    It must be able to make environments.
    """
    command = [python, "-c", "import ensurepip, venv, sys; print(sys.executable)"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def packages(row: Row) -> list[str]:
    """What a row needs beside Spark."""
    wanted = required(*EXTRAS, *(["connect"] if row.api == "connect" else []))
    if row.dependencies == "oldest":
        return oldest(wanted)
    others = [one for one in wanted if not one.startswith(("pyspark", "pandas"))]
    spark = "pyspark[sql,connect]" if row.api == "connect" else "pyspark[sql]"
    return [*others, f"{spark}=={row.spark}.*", f"pandas=={row.pandas}.*"]


def tried(row: Row, python: str, java: str, *, pins: bool) -> str:
    """Run a row; an empty text if it passes, otherwise the end of what it printed."""
    folder = installed(packages(row), apart=True, python=python)
    if folder is None:
        return "its packages cannot be installed together: see pip's message above"
    programs = ["smoke.py connect" if row.api == "connect" else "smoke.py"]
    programs += ["smoke_pins.py"] if pins and row.api == "classic" else []
    settings = {"JAVA_HOME": java, "PATH": os.pathsep.join([f"{java}/bin", os.environ["PATH"]])}
    for program in programs:
        process = start(str(folder / "bin" / "python"), program, settings=settings)
        printed, _ = process.communicate()
        if process.returncode:
            return printed[-2_000:]
    return ""


def outcome(why: str, begun: float) -> str:
    """What is told of a row that was tried: why it failed, or how long it took since it began."""
    return f"failed\n{why}" if why else f"passed in {time.monotonic() - begun:.0f} s"


def main() -> int:
    """Try the rows and print them; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="try bsjoin with all supported versions")
    parser.add_argument("--list", action="store_true", help="print the rows and do nothing")
    parser.add_argument("--only", default="", help="rows with this text, such as '3.13 4.2'")
    parser.add_argument("--quick", action="store_true", help="one row: the oldest versions")
    given = parser.parse_args()
    interpreters = pythons()
    if given.quick:
        ensure_java()
        ensure_venv_modules()
        interpreters = {"{}.{}".format(*sys.version_info): sys.executable}
    javas = dict(installed_javas())
    failed = 0
    print("python spark java dependencies pandas api")
    for row in [oldest_of(javas)] if given.quick else rows():
        named = " ".join(astuple(row))
        if given.only not in named:
            continue
        told = ""
        if row.python not in interpreters:
            told = f"absent: no Python {row.python} on this machine"
        elif row.java not in javas:
            told = f"absent: no Java {row.java} on this machine"
        elif not given.list:
            begun = time.monotonic()
            home = str(Path(javas[row.java]))
            why = tried(row, interpreters[row.python], home, pins=not given.quick)
            failed += bool(why)
            told = outcome(why, begun)
        failed += given.quick and told.startswith("absent")
        print(f"{named}: {told}" if told else named, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
