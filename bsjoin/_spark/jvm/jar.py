"""The jar of the look-up functions: part of the wheel, compiled from its sources in a checkout.

It needs nothing beside Spark and the JDK, has no Scala, and runs on Java 8 and later: one jar for
all versions of Spark. Its ``build`` is a digest of the sources; a session refuses another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bsjoin.errors import StoreError, WorkerEnvironmentError
from bsjoin.host import private_folder

__all__ = ["BUILD_ENTRY", "JarError", "build_of_sources", "compiled", "jar"]

BUILD_ENTRY = "bsjoin/jvm/build"
_HERE = Path(__file__).parent
_SOURCES = _HERE / "java"
_PACKAGED = _HERE / "bsjoin-jvm.jar"
_ALWAYS = (1980, 1, 1, 0, 0, 0)  # the same sources make the same jar


class JarError(Exception):
    """There is no jar, and none can be made; it says why."""


def jar() -> str:
    """The path of the jar with the look-up functions, for ``spark.jars``.

    A session attaches it by itself where it may. Where it may not, or to spare that, start the
    application with it.

    Returns:
        The path of a file on this machine.

    Raises:
        WorkerEnvironmentError: a checkout has no jar yet and no ``javac`` on the PATH to compile
            it.

    Example:
        >>> settings = {"spark.jars": jar()}
    """
    try:
        return str(compiled())
    except JarError as error:
        raise WorkerEnvironmentError(str(error)) from None


@cache
def build_of_sources() -> str:
    """A digest of the sources, 16 hexadecimal digits; of the jar where there are none."""
    sources = sorted(_SOURCES.rglob("*.java"))
    if not sources:
        return _build_of(_PACKAGED) or ""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]


def _build_of(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as file:
            return file.read(BUILD_ENTRY).decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def compiled() -> Path:
    """The jar of these sources; compiled if it is not there.

    Raises:
        JarError: nothing can compile it, or it can be written nowhere.
    """
    places = [lambda: _PACKAGED, _temporary]  # a package may be read-only
    for place in places:
        with contextlib.suppress(StoreError):
            if _build_of(place()) == build_of_sources():
                return place()
    classes = _by_javac()
    reason: Exception | None = None
    for place in places:
        try:
            _write(place(), classes)
        except (OSError, StoreError) as error:
            reason = error
        else:
            return place()
    raise JarError(f"the jar cannot be written: {reason}")


def _temporary() -> Path:
    """The jar in a folder that only this user can write to."""
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    folder = private_folder(Path(tempfile.gettempdir()) / f"bsjoin-jvm{user}")
    return folder / f"{build_of_sources()}.jar"


def _write(place: Path, classes: Mapping[str, bytes]) -> None:
    """Write the jar in one step: another process may do the same, or read it."""
    handle, name = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            entries = {BUILD_ENTRY: build_of_sources().encode(), **classes}
            for entry, content in sorted(entries.items()):
                info = zipfile.ZipInfo(entry, _ALWAYS)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)
        os.chmod(name, 0o644)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _by_javac() -> dict[str, bytes]:
    """The classes, by the JDK's compiler."""
    javac, spark = shutil.which("javac"), _spark_jars()
    if javac is None or spark is None:
        raise JarError(
            f"{str(_PACKAGED)!r} is missing or older than its sources, and there is no "
            f"{'javac on the PATH' if javac is None else 'pyspark'} to compile them with: install "
            "bsjoin from a wheel, or a JDK"
        )
    with tempfile.TemporaryDirectory() as out:
        command = [
            javac, "-source", "8", "-target", "8", "-XDignore.symbol.file", "-Xlint:-options",
            "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", f"{spark}/*", "-d", out,
            *map(str, sorted(_SOURCES.rglob("*.java"))),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise JarError(f"{javac} cannot compile the look-up functions: {done.stderr.strip()}")
        return {
            path.relative_to(out).as_posix(): path.read_bytes()
            for path in Path(out).rglob("*.class")
        }


def _spark_jars() -> Path | None:
    home = os.environ.get("SPARK_HOME")
    found = find_spec("pyspark")
    folders = [Path(home) / "jars"] if home else []
    folders += [Path(found.origin).parent / "jars"] if found and found.origin else []
    return next((folder for folder in folders if any(folder.glob("spark-catalyst_*.jar"))), None)


if __name__ == "__main__":
    print(jar())
