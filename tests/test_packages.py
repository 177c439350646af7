"""Every way to make a package brings the jar, and an installed package compiles nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import bsjoin
from bsjoin.errors import WorkerEnvironmentError
from bsjoin.runtimes.jvm import compiling
from bsjoin.runtimes.jvm import jar as jars

ROOT = Path(bsjoin.__file__).resolve().parents[1]
JAR = "bsjoin/runtimes/jvm/bsjoin-jvm.jar"
SOURCE = "bsjoin/runtimes/jvm/java/bsjoin/jvm/storage/Code.java"
BACKEND = "import sys; sys.path.insert(0, 'scripts'); import package_backend; print(%s)"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ALWAYS = {one.partition(">=")[0] for one in PROJECT["dependencies"]}
COMPILED = re.compile(r"\.java$|__pycache__")
BARE = {"PATH": "", "HOME": os.devnull}
"""The environment of a machine without a JDK, in which only the standard library is found."""
QUICKLY = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a compiler that runs for seconds."""


def checkout(folder: Path) -> Path:
    """A copy of this checkout, as far as a package needs it."""
    for name in ("bsjoin", "scheduling", "scripts"):
        left_out = shutil.ignore_patterns("__pycache__", "bsjoin-jvm.jar")
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def python(
    program: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def backend(
    folder: Path, call: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a function of the build backend in a folder, as pip does."""
    return python(BACKEND % f"package_backend.{call}", folder, environment)


def made(folder: Path, call: str, environment: dict[str, str] | None = None) -> Path:
    """The package that the build backend makes in a folder."""
    out = folder.with_name(f"{folder.name}-{call}")
    done = backend(folder, f"{call}({str(out)!r})", environment)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout") / "here")


@pytest.fixture(scope="module")
def wheel(here: Path) -> Path:
    return made(here, "build_wheel", os.environ | QUICKLY)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution that was made in another folder, which had the jar, unpacked."""
    elsewhere = checkout(tmp_path_factory.mktemp("elsewhere") / "checkout")
    shutil.copy(bsjoin.jar(), elsewhere / JAR)
    with tarfile.open(made(elsewhere, "build_sdist")) as file:
        file.extractall(elsewhere.parent, filter="data")
    (folder,) = elsewhere.parent.glob("bsjoin-[0-9]*")
    return folder


def test_the_wheel_has_the_jar_of_the_sources_and_not_the_sources(
    wheel: Path, here: Path, tmp_path: Path
) -> None:
    entries = content(wheel)
    assert entries[JAR] == Path(bsjoin.jar()).read_bytes()
    assert [name for name in entries if COMPILED.search(name)] == []
    with zipfile.ZipFile(wheel) as file:
        assert len({info.date_time for info in file.infolist()}) == 1
    (tmp_path / "jar").write_bytes(entries[JAR])
    classes = content(tmp_path / "jar")
    assert int.from_bytes(classes["bsjoin/jvm/Functions.class"][6:8]) == 61, "Java 17 byte code"
    for name, data in {**entries, **classes}.items():
        assert str(here.parent).encode() not in data, name
        assert str(ROOT).encode() not in data, name
    assert not (here / JAR).exists()  # the checkout stays without one


def test_a_source_distribution_makes_the_same_wheel_without_a_compiler(
    unpacked: Path, wheel: Path
) -> None:
    assert made(unpacked, "build_wheel", BARE).read_bytes() == wheel.read_bytes()
    folder = unpacked.with_name("changed")
    shutil.copytree(unpacked, folder)
    with (folder / SOURCE).open("a") as source:
        source.write("\n// changed\n")
    assert backend(folder, "build_wheel('out')", BARE).returncode == 1


def test_where_the_jar_cannot_be_made_there_is_no_package(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "here")
    for call in ("build_wheel", "build_sdist"):
        done = backend(folder, f"{call}('out')", BARE)
        assert done.returncode == 1
        (told,) = done.stderr.splitlines()
        assert told.startswith("bsjoin cannot be packaged: the jar for Spark's JVM is missing")
        assert "there is no javac on the PATH or in JAVA_HOME" in told
        assert list((folder / "out").glob("*")) == []
    editable = (
        "import sys; sys.path.insert(0, 'scripts'); import build_jar; made = {}; "
        "build_jar.JarHook('.', {}, None, None, '', 'wheel').initialize('editable', made); "
        "print(made)"
    )
    assert python(editable, folder, BARE).stdout == "{}\n"
    (folder / SOURCE).write_text("class Code {")
    done = backend(folder, "build_wheel('out')")
    assert done.returncode == 1
    assert "cannot compile the look-up functions" in done.stderr
    assert "Traceback" not in done.stderr


def test_spark_is_asked_for_only_where_the_jar_is_compiled_against_it(
    here: Path, unpacked: Path, tmp_path: Path
) -> None:
    """It is 450 MB: an isolated build has nothing but what it asks for."""
    without_spark = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: "
    without_spark += "None if n == 'pyspark' else f(n); "
    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    with_compiler = {"PATH": str(compiler.parent)}
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-catalyst_2.13-4.1.0.jar").touch()
    with_spark = {**with_compiler, "SPARK_HOME": str(tmp_path / "spark")}
    for folder, kind, environment, wanted in (
        (here, "wheel", with_compiler, True),
        (here, "sdist", with_compiler, True),
        (here, "editable", with_compiler, False),
        (here, "wheel", BARE, False),
        (here, "wheel", with_spark, False),
        (unpacked, "wheel", with_compiler, False),
    ):
        program = BACKEND % f"package_backend.get_requires_for_build_{kind}()"
        done = python(without_spark + program, folder, environment)
        assert ("'pyspark>=4.1'" in done.stdout) == wanted, (kind, environment, done.stderr)


def test_an_installed_package_writes_nothing_and_compiles_nothing(
    wheel: Path, tmp_path: Path
) -> None:
    site, temporary = tmp_path / "site", tmp_path / "tmp"
    temporary.mkdir()
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    found = {"PYTHONPATH": str(site), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    before, program = sorted(site.rglob("*")), "import bsjoin; print(bsjoin.jar())"
    done = python(program, temporary, os.environ | found)
    assert done.stdout.strip() == str(site / JAR), done.stderr
    assert sorted(site.rglob("*")) == before
    assert list(temporary.iterdir()) == []
    (site / JAR).unlink()
    done = python(program, temporary, os.environ | found)
    assert "WorkerEnvironmentError" in done.stderr
    assert "is missing, so this installation of bsjoin is not complete" in done.stderr
    assert not (site / JAR).exists()


def test_the_jar_of_a_checkout_is_compiled_into_a_folder_of_this_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a compiler that may be in JAVA_HOME only; what it makes is in the wheel."""
    compiled_by: list[str | None] = []

    def classes() -> dict[str, bytes]:
        compiled_by.append(compiling.javac())
        return {}

    monkeypatch.setattr(jars, "PACKAGED", tmp_path / "none.jar")
    monkeypatch.setattr(jars.tempfile, "tempdir", str(tmp_path))
    compiler = compiling.javac()
    assert compiler is not None
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(WorkerEnvironmentError, match=r"no javac .*install a JDK.*or take"):
        bsjoin.jar()
    monkeypatch.setenv("JAVA_HOME", str(Path(compiler).resolve().parents[1]))
    monkeypatch.setattr(compiling, "_classes", classes)
    compiled = Path(bsjoin.jar())
    assert compiled_by == [str(Path(compiler).resolve())]
    assert compiled.is_relative_to(tmp_path)
    assert compiling.build_of(compiled) == jars.build_of_sources()
    assert stat.S_IMODE(compiled.parent.stat().st_mode) == 0o700
    compiled.parent.chmod(0o777)  # a folder that others can write to may hold anything
    with pytest.raises(WorkerEnvironmentError, match=r"cannot be written.*other users can"):
        bsjoin.jar()


def test_every_requirement_is_imported_and_spark_comes_with_the_extras_that_run_it() -> None:
    """A Spark that is there stays."""
    imported = {
        name.partition(".")[0]
        for part in ("bsjoin", "scheduling")
        for path in (ROOT / part).rglob("*.py")
        for name in re.findall(r"(?m)^ *(?:import|from) ([\w.]+)", path.read_text("utf-8"))
    }
    assert imported >= ALWAYS
    assert {"pyspark", "pandas", "py4j", "pyspark-client"}.isdisjoint(ALWAYS)
    extras = PROJECT["optional-dependencies"]

    def names(extra: str) -> set[str]:
        found = set()
        for one in extras[extra]:
            nested = re.match(r"bsjoin\[([\w,]+)\]", one)
            found |= set().union(*map(names, nested[1].split(","))) if nested else {one}
        return found

    for extra in ("spark", "connect", "examples", "dev"):
        assert any(one.startswith("pyspark[") for one in names(extra)), extra
        assert any(one.startswith("pandas>=") for one in names(extra)), extra


def test_an_environment_that_lacks_something_is_told_what_to_install() -> None:
    for absent, told in (
        ("pyspark", r"ModuleNotFoundError: bsjoin needs PySpark 4\.1 .*, and '.*' has none"),
        ("pandas", r"WorkerEnvironmentError: Spark makes functions .* with pandas only, and"),
    ):
        program = (
            "import importlib.util as u; find = u.find_spec; "
            f"u.find_spec = lambda name: None if name == {absent!r} else find(name); "
            "import bsjoin; bsjoin.join; from bsjoin.spark import workers; workers._reports(None)"
        )
        done = python(program)
        assert re.search(told + r".*run `pip install '", done.stderr), done.stderr
    old = "import pyspark; pyspark.__version__ = '4.0.2'; import bsjoin; bsjoin.join"
    assert "bsjoin needs Spark 4.1 or newer: upgrade Spark 4.0.2" in python(old).stderr
    # The package of a mere Connect client suffices: it has neither py4j nor what is Spark's core.
    program = (
        "import sys; sys.modules['pyspark.core'] = None; sys.modules['py4j'] = None; "
        "import bsjoin; [getattr(bsjoin, name) for name in bsjoin.__all__]; "
        "import bsjoin.runtimes.apply; from pyspark.util import is_remote_only; "
        "print(is_remote_only())"
    )
    done = python(program)
    assert done.stdout == "True\n", done.stderr
