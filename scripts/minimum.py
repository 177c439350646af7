"""Install the oldest versions that pyproject.toml admits, and try bsjoin with them.

    python scripts/minimum.py [PROGRAM]

The program (``tests/smoke.py``) runs in a virtual environment of its own, which is kept in the
user's cache folder: where the versions are the same again, nothing is installed.
"""

import hashlib
import os
import re
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


def environment(requirements: list[str]) -> Path:
    """The Python of an environment with these versions, made where it is not there yet."""
    wanted = "\n".join(
        [sys.implementation.cache_tag, os.path.realpath(sys.base_prefix), *requirements]
    )
    folder = CACHE / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        print(f"minimum: installing into {folder}: {' '.join(requirements)}", flush=True)
        venv.EnvBuilder(symlinks=True, clear=True, with_pip=True).create(folder)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.call([*command, *requirements]):
            sys.exit(
                "minimum: the lowest versions in pyproject.toml cannot be installed together "
                "(see pip's message above): raise those that are named."
            )
        stamp.write_text(wanted)
    return python


def main() -> int:
    """Run the program and return its exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    python = environment(oldest(project))
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "tests" / "smoke.py")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    return subprocess.call([str(python), program], env=variables)


if __name__ == "__main__":
    sys.exit(main())
