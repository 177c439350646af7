"""The jar of the look-up functions: part of the package, compiled from its sources in a checkout.

It needs nothing beside Spark and the JDK, has no Scala, and runs on Java 17 and later, as Spark
does: one jar for all versions of Spark. Its ``build`` is a digest of the sources; a session refuses
another one.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from bsjoin.errors import StoreError, WorkerEnvironmentError
from bsjoin.host import private_folder
from bsjoin.runtimes.jvm import compiling
from bsjoin.runtimes.jvm.compiling import BUILD_ENTRY, PACKAGED, JarError, build_of, compile_into

__all__ = ["BUILD_ENTRY", "JarError", "build_of_sources", "compiled", "jar"]


def jar() -> str:
    """The path of the jar with the look-up functions, for ``spark.jars``.

    A session attaches it by itself where it may. Where it may not, or to spare that, start the
    application with it. It is part of the installed package. A checkout has none: it is
    compiled once, into the folder for temporary files.

    Returns:
        The path of a file on this machine.

    Raises:
        WorkerEnvironmentError: a checkout has no jar yet, and there is no ``javac`` on the PATH or
            in JAVA_HOME to compile it.

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
    return compiling.build_of_sources() or build_of(PACKAGED) or ""


def compiled() -> Path:
    """The jar of the package; of a checkout that of its sources, compiled if it is not there."""
    if not build_of_sources():
        raise JarError(
            f"{str(PACKAGED)!r} is missing, so this installation of bsjoin is not complete: "
            "install it again"
        )
    if build_of(PACKAGED) == build_of_sources():
        return PACKAGED
    try:
        place = _of_this_user()
        if build_of(place) != build_of_sources():
            compile_into(place)
    except (OSError, StoreError) as error:
        raise JarError(f"the jar cannot be written: {error}") from error
    return place


def _of_this_user() -> Path:
    """The jar of a checkout, in a folder that only this user can write to."""
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    folder = private_folder(Path(tempfile.gettempdir()) / f"bsjoin-jvm{user}")
    return folder / f"{build_of_sources()}.jar"


if __name__ == "__main__":
    print(jar())
