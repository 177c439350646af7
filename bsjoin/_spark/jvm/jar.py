"""The jar of the look-up functions: part of the wheel, compiled from its sources in a checkout.

It needs nothing beside Spark and the JDK, has no Scala, and runs on Java 8 and later: one jar for
all versions of Spark. Its ``build`` is a digest of the sources; a session refuses another one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

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
        >>> settings = {"spark.jars": bsjoin.jar()}
    """
    from bsjoin.errors import WorkerEnvironmentError

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
        JarError: nothing can compile it.
    """
    own = Path(tempfile.gettempdir()) / f"bsjoin-jvm-{os.getuid()}"
    places = [_PACKAGED, own / f"{build_of_sources()}.jar"]
    for place in places:
        if _build_of(place) == build_of_sources() and _is_ours(place):
            return place
    classes = _by_javac()
    if classes is None:
        raise JarError(
            f"{str(_PACKAGED)!r} is missing or older than its sources, and there is no javac on "
            "the PATH to compile them: install bsjoin from a wheel, or a JDK"
        )
    for place in places:
        try:
            _write(place, classes)
        except OSError:
            continue
        if _is_ours(place):
            return place
    raise JarError(f"no jar can be written to {' or '.join(map(repr, map(str, places)))}")


def _is_ours(place: Path) -> bool:
    """Whether nobody else can have put it there: the folder for temporary files is everybody's."""
    if place == _PACKAGED:
        return True
    return all(
        found.st_uid == os.getuid() and not found.st_mode & 0o022
        for found in (place.parent.lstat(), place.lstat())
    )


def _write(place: Path, classes: Mapping[str, bytes]) -> None:
    """Write the jar in one step: another process may do the same, or read it."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
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


def _by_javac() -> dict[str, bytes] | None:
    """The classes by the JDK's compiler; None where there is none, or no Spark to compile with."""
    javac, spark = shutil.which("javac"), _spark_jars()
    if javac is None or spark is None:
        return None
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
    from importlib.util import find_spec

    home = os.environ.get("SPARK_HOME")
    found = find_spec("pyspark")
    folders = [Path(home) / "jars"] if home else []
    folders += [Path(found.origin).parent / "jars"] if found and found.origin else []
    return next((folder for folder in folders if any(folder.glob("spark-catalyst_*.jar"))), None)


if __name__ == "__main__":
    print(jar())
