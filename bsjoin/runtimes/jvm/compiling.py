"""Compiles the jar of the look-up functions from its sources, by the JDK's javac.

A checkout does so at the first use, and whoever builds a wheel or a source distribution, which
loads this file alone: it uses the standard library only. An installed package has the jar and no
sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

BUILD_ENTRY = "bsjoin/jvm/build"
PACKAGED = Path(__file__).with_name("bsjoin-jvm.jar")
"""Where a wheel and a source distribution have the jar; a checkout has none there."""
_SOURCES = Path(__file__).with_name("java")
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_ALWAYS = (1980, 1, 1, 0, 0, 0)  # the same sources make the same jar


class JarError(Exception):
    """There is no jar, and none can be made; it says why, and what to do."""


def build_of_sources() -> str | None:
    """A digest of the sources, 16 hexadecimal digits; None where there are none."""
    sources = sorted(_SOURCES.rglob("*.java"))
    if not sources:
        return None
    digest = hashlib.sha256()
    for path in sources:
        digest.update(
            path.relative_to(_SOURCES).as_posix().encode()
            + b"\0"
            + path.read_bytes().replace(b"\r\n", b"\n")
        )
    return digest.hexdigest()[:16]


def build_of(jar: Path) -> str | None:
    """The digest of the sources that a jar was made of; None if it is not such a jar."""
    try:
        with zipfile.ZipFile(jar) as file:
            return file.read(BUILD_ENTRY).decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def compile_into(place: Path) -> None:
    """Write the jar in one step: another process may do the same, or read it."""
    entries = {
        BUILD_ENTRY: (build_of_sources() or "").encode(),
        _SERVICE: b"bsjoin.jvm.catalog.Source\n",
        **_classes(),
    }
    handle, name = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for entry, content in sorted(entries.items()):
                info = zipfile.ZipInfo(entry, _ALWAYS)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)
        os.chmod(name, 0o644)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _classes() -> Mapping[str, bytes]:
    compiler, jars = javac(), spark_jars()
    if compiler is None or jars is None:
        lacks = "javac on the PATH or in JAVA_HOME"
        if compiler is not None:
            lacks = "PySpark with its jars, nor a SPARK_HOME,"
        raise JarError(
            f"the jar for Spark's JVM is missing and there is no {lacks} to compile "
            f"{str(_SOURCES)!r} with: install a JDK of version 17 or newer and PySpark, or take "
            "bsjoin's wheel or source distribution, which have the jar"
        )
    with tempfile.TemporaryDirectory() as out:
        command = [
            compiler, "--release", "17", "-nowarn", "-proc:none", "-encoding", "UTF-8",
            "-cp", f"{jars}/*", "-d", out,
            *map(str, sorted(_SOURCES.rglob("*.java"))),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise JarError(
                f"{compiler} cannot compile the look-up functions with the classes in "
                f"{str(jars)!r}: {done.stderr.strip()}"
            )
        return {
            path.relative_to(out).as_posix(): path.read_bytes()
            for path in Path(out).rglob("*.class")
        }


def javac() -> str | None:
    """The JDK's compiler: of JAVA_HOME, or on the PATH; None without one."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("javac", path=f"{home}/bin") if home else None) or shutil.which("javac")


def spark_jars() -> Path | None:
    """The folder with Spark's classes: of SPARK_HOME, or of this Python's PySpark; None if neither.

    The package of a Connect client has none.
    """
    home = os.environ.get("SPARK_HOME")
    found = find_spec("pyspark")
    folders = [Path(home) / "jars"] if home else []
    folders += [Path(found.origin).parent / "jars"] if found and found.origin else []
    return next((folder for folder in folders if any(folder.glob("spark-catalyst_*.jar"))), None)
