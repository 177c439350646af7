"""Environments with other versions than the installed ones, kept in the user's cache folder.

Where the versions are the same again, nothing is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from bootstrap import own_environment

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bsjoin-minimum"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?>=(?P<version>[\d.]+)[^;]*")


def required(*extras: str) -> list[str]:
    """The project's requirements, with those of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = list(project["dependencies"])
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    return declared


def oldest(requirements: list[str]) -> list[str]:
    """The requirements, each with its lowest version and no other."""
    found = []
    for requirement in requirements:
        parts = REQUIREMENT.match(requirement)
        if parts is None:
            sys.exit(f"{requirement!r} declares no lowest version: write name>=version.")
        found.append(f"{parts['name']}{parts['extras'] or ''}=={parts['version']}")
    return found


def installed(requirements: list[str], *, apart: bool, python: str = sys.executable) -> Path | None:
    """A folder with packages of these versions, made where it is not there yet.

    Args:
        requirements: what to install.
        apart: whether in a virtual environment; otherwise just the packages.
        python: the interpreter that they are for; default this one.

    Returns:
        The folder; None if pip cannot install them together, which it says.
    """
    who = "import os, sys; print(sys.implementation.cache_tag, os.path.realpath(sys.base_prefix))"
    tag = subprocess.run([python, "-c", who], stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = "\n".join([tag.strip(), *requirements])
    folder = CACHE / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    stamp = folder / "installed"
    if not stamp.exists():
        print(f"installing into {folder}: {' '.join(requirements)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        runs, where = python, ["--target", str(folder)]
        if apart:
            subprocess.run([python, "-m", "venv", str(folder)], check=True)
            runs, where = str(folder / "bin" / "python"), []
        command = [runs, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.call([*command, *where, *requirements], env=own_environment()):
            return None
        stamp.write_text(wanted)
    return folder


def start(
    python: str, program: str, settings: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Begin to run one of the tests' programs.

    Args:
        python: the interpreter.
        program: a file in ``tests``, with its arguments behind it.
        settings: further environment variables; none by default.
    """
    file, *arguments = program.split()
    return subprocess.Popen(
        [python, str(ROOT / "tests" / file), *arguments],
        env={
            **own_environment(),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": python,
            **(settings or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
