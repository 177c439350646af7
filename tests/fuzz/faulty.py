"""A session in which faults are put into the engine, one after the other.

The driver imports a copy of the tree again for each, and so do new Python workers. Classes of the
jar get other method bodies while the JVM runs (``Faults.java``). So a fault costs no new session.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark

Places = Iterable[tuple[int, Sequence[int]]]
"""Numbers of rounds, and of each the keys of cases (:mod:`tests.fuzz.chosen`)."""

_ROOT = Path(__file__).resolve().parent.parent.parent
_PACKAGES = ("bsjoin", "scheduling", "tests")
_AGENT = Path(__file__).with_name("Faults.java")
_JAVAC = ["--release", "17", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
_STARTED = "BSJOIN_FUZZ_FAULT"
_HARNESS = re.compile(
    r"""^(the\ tables:\ |only\ together:\ )?
    (Py4J\w*NetworkError|Connection\w*Error|BrokenPipeError|EOFError|OSError|FileNotFoundError
    |PermissionError|ImportError|ModuleNotFoundError|SyntaxError|NameError|MemoryError
    |TooManyRowsError)\b
    |failed\ to\ connect\ back|Python\ worker\ exited|Cannot\ run\ program|OutOfMemoryError
    |No\ space\ left|Too\ many\ open\ files|SparkContext\ was\ (stopped|shut\ down)""",
    re.VERBOSE,
)
"""Errors of the driver, by their class, and of the session, which say nothing of an answer.

What the engine cannot answer ends in an error of its own, of Spark, of Arrow, of Java, or of
numbers: a position that is out of range, say.
"""


class HarnessError(Exception):
    """A case has failed for another reason than a wrong answer."""


class FaultySession:
    """A session that runs chosen cases with one fault at a time."""

    def __init__(self, places: Places) -> None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._place = tempfile.TemporaryDirectory(prefix="bsjoin-faults-")
        folder = Path(self._place.name)
        self._tree, self._count = folder / "tree", 0
        for name in _PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_ROOT / name, self._tree / name, ignore=ignored)
        (folder / "empty").mkdir()
        os.chdir(folder / "empty")  # workers import what is in the working folder first
        sys.path.insert(0, str(self._tree))
        os.environ["PYTHONPATH"] = str(self._tree)
        _import_again()
        from tests import sessions

        agent = f" -javaagent:{_agent(folder)}"
        name = "spark.driver.extraJavaOptions"
        settings = {**sessions.SETTINGS, name: sessions.SETTINGS[name] + agent}
        self._spark: Any = sessions.session("local[2]", settings)
        if wrong := self._first_wrong(places):
            raise AssertionError(f"without a fault: {wrong}")

    def run(self, file: str, text: str, places: Places) -> str:
        """What is wrong with the first of some cases that finds a fault; empty if none does.

        Args:
            file: that has it, below ``bsjoin/``.
            text: of the file, with the fault.
            places: the cases, by round.

        Raises:
            HarnessError: a case has failed for another reason than a wrong answer.
        """
        put = self._defined if file.endswith(".java") else self._written
        with put(self._tree / "bsjoin" / file, text):
            return self._first_wrong(places)

    def _first_wrong(self, places: Places) -> str:
        from tests.fuzz.chosen import cases_of
        from tests.fuzz.engine import Engine

        with tempfile.TemporaryDirectory(prefix="bsjoin-fuzz-") as folder:
            engine = Engine(self._spark, Path(folder), first=True)
            for number, keys in places:
                cases = cases_of(keys, number)
                for key, wrong in engine.failures(cases).items() if cases else ():
                    told = f"case {key}: {' '.join(wrong.split())}"
                    if not is_of_the_engine(wrong):
                        raise HarnessError(told[:1000])
                    return told[:240]
        return ""

    @contextmanager
    def _written(self, file: Path, text: str) -> Iterator[None]:
        """The fault in the driver and in Python workers of its own."""
        before = file.read_text()
        try:
            self._replace(file, text)
            yield
        finally:
            self._replace(file, before)

    def _replace(self, file: Path, text: str) -> None:
        file.write_text(text)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()
        _import_again()
        # Workers of another environment are others; those there were are not used again.
        old = _daemons()
        self._count += 1
        self._spark.sparkContext.environment[_STARTED] = str(self._count)
        for daemon in old:
            with suppress(psutil.NoSuchProcess):
                for process in [*daemon.children(recursive=True), daemon]:
                    process.kill()

    @contextmanager
    def _defined(self, file: Path, text: str) -> Iterator[None]:
        """The fault in the classes of the JVM."""
        original = self._packaged(file.stem)
        try:
            self._define(self._compiled(file, text))
            yield
        finally:
            self._define(original)

    def _packaged(self, name: str) -> dict[str, bytes]:
        """The classes of a source as the session has got them."""
        from bsjoin.runtimes.jvm.jar import jar

        with zipfile.ZipFile(jar()) as archive:
            return {
                entry.removesuffix(".class").replace("/", "."): archive.read(entry)
                for entry in archive.namelist()
                if entry.endswith(".class") and Path(entry).stem.split("$")[0] == name
            }

    def _compiled(self, file: Path, text: str) -> dict[str, bytes]:
        """The classes of another text; the tree, which names the jar, stays as it is."""
        from bsjoin.runtimes.jvm.jar import jar

        jvm, gateway = self._spark._jvm, self._spark.sparkContext._gateway
        with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as out:
            source = Path(given, file.name)
            source.write_text(text)
            jars = [jar(), *(Path(pyspark.__file__).parent / "jars").glob("*.jar")]
            options = [*_JAVAC, "-cp", ":".join(map(str, jars)), "-d", out]
            arguments = gateway.new_array(jvm.java.lang.String, len(options) + 1)
            for i, option in enumerate([*options, str(source)]):
                arguments[i] = option
            if jvm.com.sun.tools.javac.Main.compile(arguments):  # quicker than one more process
                raise AssertionError(f"{file.name} with the fault does not compile")
            return {
                str(path.relative_to(out).with_suffix("")).replace("/", "."): path.read_bytes()
                for path in Path(out).rglob("*.class")
                if path.stem.split("$")[0] == file.stem
            }

    def _define(self, classes: dict[str, bytes]) -> None:
        jvm = self._spark._jvm
        given = jvm.java.util.HashMap()
        for name, content in classes.items():
            given.put(name, content)
        if not jvm.Faults.define(given):
            raise AssertionError(f"no class is loaded of {sorted(classes)}")


def is_of_the_engine(wrong: str) -> bool:
    """Whether what is wrong with a case is the engine's answer, or an error in place of one."""
    return not _HARNESS.search(wrong)


def _import_again() -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] in _PACKAGES:
            del sys.modules[name]
    importlib.invalidate_caches()


def _daemons() -> list[psutil.Process]:
    """The daemons of Python workers that this session has started."""
    started = psutil.Process().children()
    return [daemon for java in started if java.name() == "java" for daemon in java.children()]


def _agent(folder: Path) -> Path:
    """The jar of the agent."""
    out = folder / "agent"
    subprocess.run(["javac", *_JAVAC, "-d", str(out), str(_AGENT)], check=True)
    manifest = folder / "manifest"
    manifest.write_text("Premain-Class: Faults\nCan-Redefine-Classes: true\n")
    agent = folder / "agent.jar"
    subprocess.run(["jar", "cfm", str(agent), str(manifest), "-C", str(out), "."], check=True)
    return agent
