"""Jars from Maven, fetched once and kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bsjoin</groupId><artifactId>jars</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def jars(coordinates: Sequence[str], only: Sequence[str] = ()) -> Path | None:
    """The folder with the jars of packages, and all that they need at run time.

    Args:
        coordinates: ``group:artifact:version`` of each.
        only: the artifacts that are wanted; empty (default): all.

    Returns:
        None where there is no Maven and they have not been fetched before.

    Raises:
        RuntimeError: Maven cannot get them; the error has what it says.
    """
    name = hashlib.sha256("\n".join([*coordinates, "", *only]).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bsjoin-jars"
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / name
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the processes of a run one fetches
        if kept.is_dir():
            return kept
        maven = shutil.which("mvn")
        if maven is None:
            return None
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _fetch(maven, Path(folder), coordinates, only)
            (Path(folder) / "jars").rename(kept)
    return kept


def _fetch(maven: str, folder: Path, coordinates: Sequence[str], only: Sequence[str]) -> None:
    listed = "".join(_DEPENDENCY.format(*one.split(":")) for one in coordinates)
    (folder / "pom.xml").write_text(_POM.format(dependencies=listed))
    words = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    words += [f"-DincludeArtifactIds={','.join(only)}"] * bool(only)
    done = subprocess.run(
        [maven, "--batch-mode", "--no-transfer-progress", *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"Maven cannot fetch {', '.join(coordinates)}:\n{done.stdout[-4_000:]}")
