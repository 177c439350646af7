"""Every way to make a package brings the jar, and an installed package compiles nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import bsjoin
from bsjoin.errors import WorkerEnvironmentError
from bsjoin.runtimes.jvm import compiling
from bsjoin.runtimes.jvm import jar as jars
from tests.archives import unpack

ROOT = Path(bsjoin.__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))
import build_jar  # noqa: E402
import package_backend  # noqa: E402

JAR = "bsjoin/runtimes/jvm/bsjoin-jvm.jar"
SOURCE = "bsjoin/runtimes/jvm/java/bsjoin/jvm/storage/Code.java"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ALWAYS = {one.partition(">=")[0] for one in PROJECT["dependencies"]}
COMPILED = re.compile(r"\.java$|__pycache__")
BARE = {"PATH": "", "JAVA_HOME": None, "SPARK_HOME": None}
"""The environment of a machine without a JDK, in which only the standard library is found."""


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


@contextmanager
def inside(folder: Path, environment: Mapping[str, str | None]) -> Iterator[None]:
    """Be in a folder, as the build backend is; None removes a variable of the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        yield


def made(folder: Path, kind: str, environment: Mapping[str, str | None] = BARE) -> Path:
    """The package that the build backend makes in a folder."""
    out = folder.with_name(f"{folder.name}-{kind}")
    with inside(folder, environment):
        return out / str(getattr(package_backend, f"build_{kind}")(str(out)))


def refused(folder: Path, kind: str, environment: Mapping[str, str | None] = BARE) -> str:
    """What the build backend says where it makes no package."""
    out = folder.with_name("refused")
    with inside(folder, environment), pytest.raises(SystemExit) as raised:
        getattr(package_backend, f"build_{kind}")(str(out))
    assert list(out.glob("*")) == []
    return str(raised.value)


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout") / "here")


@pytest.fixture(scope="module")
def unpacked(here: Path) -> Path:
    """A source distribution that was made in another folder, which had the jar, unpacked."""
    elsewhere = Path(shutil.copytree(here, here.with_name("elsewhere")))
    shutil.copy(bsjoin.jar(), elsewhere / JAR)
    with tarfile.open(made(elsewhere, "sdist")) as file:
        unpack(file, here.parent)
    (folder,) = here.parent.glob("bsjoin-[0-9]*")
    return folder


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> Path:
    """The wheel of that, made without a compiler."""
    return made(unpacked, "wheel")


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


@pytest.mark.long
def test_a_checkout_compiles_the_same_wheel(here: Path, wheel: Path) -> None:
    """`make installs` has one that was compiled, too."""
    assert made(here, "wheel", {}).read_bytes() == wheel.read_bytes()
    assert not (here / JAR).exists()  # the checkout stays without one


def compiler(folder: Path, script: str) -> dict[str, str | None]:
    """An environment with a `javac`."""
    (made := folder / "bin").mkdir()
    (made / "javac").write_text(f"#!/bin/sh\n{script}\n")
    (made / "javac").chmod(0o755)
    return {**BARE, "PATH": str(made)}


def test_where_the_jar_cannot_be_made_there_is_no_package(
    here: Path, unpacked: Path, tmp_path: Path
) -> None:
    for kind in ("wheel", "sdist"):
        told = refused(here, kind)
        assert told.startswith("bsjoin cannot be packaged: the jar for Spark's JVM is missing")
        assert "there is no javac on the PATH or in JAVA_HOME" in told
        assert "\n" not in told
    editable: dict[str, Any] = {}
    hook: Any = build_jar.JarHook
    hook(str(here), {}, None, None, "", "wheel").initialize("editable", editable)
    assert editable == {}
    changed = Path(shutil.copytree(unpacked, tmp_path / "changed"))
    with (changed / SOURCE).open("a") as source:
        source.write("\n// changed\n")
    refused(changed, "wheel")
    told = refused(changed, "wheel", compiler(tmp_path, "echo no class >&2; exit 1"))
    assert "cannot compile the look-up functions" in told
    assert told.endswith("no class.")


def test_spark_is_asked_for_only_where_the_jar_is_compiled_against_it(
    here: Path, unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is 450 MB: an isolated build has nothing but what it asks for."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name)
    )
    with_compiler = compiler(tmp_path, "")
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
        with inside(folder, environment):
            found = getattr(package_backend, f"get_requires_for_build_{kind}")()
        assert ("pyspark>=4.1" in found) == wanted, (kind, environment)


@pytest.mark.long
def test_an_installed_package_writes_nothing_and_compiles_nothing(
    wheel: Path, tmp_path: Path
) -> None:
    site, temporary = tmp_path / "site", tmp_path / "tmp"
    temporary.mkdir()
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    found = {"PYTHONPATH": str(site), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    before = set(site.rglob("*"))
    program = (
        "import bsjoin, pathlib; print(bsjoin.jar()); pathlib.Path(bsjoin.jar()).unlink(); "
        "from bsjoin.runtimes.jvm import jar; jar.build_of_sources.cache_clear(); bsjoin.jar()"
    )
    done = python(program, temporary, os.environ | found)
    assert done.stdout.strip() == str(site / JAR), done.stderr
    assert "WorkerEnvironmentError" in done.stderr
    assert "is missing, so this installation of bsjoin is not complete" in done.stderr
    assert set(site.rglob("*")) == before - {site / JAR}
    assert list(temporary.iterdir()) == []


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


@pytest.mark.long
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
