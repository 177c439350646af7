"""Try bsjoin with other versions than the installed ones, all at the same time.

    python scripts/minimum.py

The oldest versions that pyproject.toml admits run ``tests/smoke.py`` in a virtual environment of
their own. The versions of Spark between the oldest and the installed one stand in front of the
installed packages and run ``tests/smoke_jvm.py``, since the JVM runtime is compiled once for all
of them. Both programs run ``tests/smoke_projections.py``, too: selections between joins, which need
private members of Spark's plans. All run ``tests/smoke_pins.py``: the private members of Spark that
``scheduling`` uses, on a standalone cluster. What is installed is kept in the user's cache folder:
where the versions are the same again, nothing is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bsjoin-minimum"
# What users install; the other extras are for working on bsjoin itself.
EXTRAS = ("duckdb", "exact", "mysql", "postgresql", "redis", "scheduling")
SPARK_BETWEEN = ("pyspark==4.2.*",)
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?>=(?P<version>[\d.]+)[^;]*")


def oldest(project: dict[str, Any]) -> list[str]:
    """The project's requirements, each with its lowest version and no other."""
    declared = list(project["dependencies"])
    for extra in EXTRAS:
        declared += project["optional-dependencies"].get(extra, [])
    found = []
    for requirement in declared:
        parts = REQUIREMENT.match(requirement)
        if parts is None:
            sys.exit(f"minimum: {requirement!r} declares no lowest version: write name>=version.")
        found.append(f"{parts['name']}{parts['extras'] or ''}=={parts['version']}")
    return found


def installed(requirements: list[str], *, apart: bool) -> Path:
    """A folder with packages of these versions, made where it is not there yet.

    Args:
        requirements: what to install.
        apart: whether in a virtual environment; otherwise just the packages.
    """
    wanted = "\n".join(
        [sys.implementation.cache_tag, os.path.realpath(sys.base_prefix), *requirements]
    )
    folder = CACHE / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    stamp = folder / "installed"
    if not stamp.exists():
        print(f"minimum: installing into {folder}: {' '.join(requirements)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        python, where = sys.executable, ["--target", str(folder)]
        if apart:
            venv.EnvBuilder(symlinks=True, with_pip=True).create(folder)
            python, where = str(folder / "bin" / "python"), []
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.call([*command, *where, *requirements]):
            sys.exit(
                f"minimum: {' '.join(requirements)} cannot be installed together (see pip's "
                "message above): raise those that are named in pyproject.toml."
            )
        stamp.write_text(wanted)
    return folder


def start(python: str, program: str, *path: Path) -> subprocess.Popen[str]:
    """Begin to run one of the tests' programs, with these folders in front of other packages."""
    before = os.pathsep.join(map(str, (*path, ROOT)))
    return subprocess.Popen(
        [python, str(ROOT / "tests" / program)],
        env={**os.environ, "PYTHONPATH": before, "PYSPARK_PYTHON": python},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def main() -> int:
    """Run the programs; 1 if one of them failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = installed(oldest(project), apart=True) / "bin" / "python"
    between = [installed([version], apart=False) for version in SPARK_BETWEEN]
    running = [start(str(own), program) for program in ("smoke.py", "smoke_pins.py")]
    for folder in between:
        running += [start(sys.executable, one, folder) for one in ("smoke_jvm.py", "smoke_pins.py")]
    for process in running:
        print(process.communicate()[0], end="", flush=True)
    return int(any(process.returncode for process in running))


if __name__ == "__main__":
    sys.exit(main())
