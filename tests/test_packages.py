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
BACKEND = "import sys; sys.path.insert(0, 'scripts'); import package_backend; print(%s)"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ALWAYS = {one.partition(">=")[0] for one in PROJECT["dependencies"]}
COMPILED = re.compile(r"\.java$|__pycache__")


def checkout(folder: Path) -> Path:
    """A copy of this checkout, as far as a package needs it."""
    for name in ("bsjoin", "scheduling", "scripts"):
        left_out = shutil.ignore_patterns("__pycache__", "bsjoin-jvm.jar")
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def bare() -> dict[str, str]:
    """The environment of a machine without a JDK, in which only the standard library is found."""
    return {"PATH": "", "HOME": os.devnull}


def backend(
    folder: Path, call: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a function of the build backend in a folder, as pip does."""
    return subprocess.run(
        [sys.executable, "-c", BACKEND % f"package_backend.{call}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


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
    return made(here, "build_wheel")


@pytest.fixture(scope="module")
def unpacked(here: Path) -> Path:
    """A source distribution, unpacked."""
    with tarfile.open(made(here, "build_sdist")) as file:
        file.extractall(here.parent, filter="data")
    (folder,) = here.parent.glob("bsjoin-[0-9]*")
    return folder


class TestMadeFromACheckout:
    def test_the_wheel_has_the_jar_of_the_sources_and_not_the_sources(self, wheel: Path) -> None:
        entries = content(wheel)
        assert entries[JAR] == Path(bsjoin.jar()).read_bytes()
        assert [name for name in entries if COMPILED.search(name)] == []

    def test_it_is_the_same_wherever_and_whenever_it_is_made(
        self, wheel: Path, here: Path, tmp_path: Path
    ) -> None:
        again = made(checkout(tmp_path / "elsewhere"), "build_wheel")
        assert again.read_bytes() == wheel.read_bytes()
        with zipfile.ZipFile(wheel) as file:
            assert len({info.date_time for info in file.infolist()}) == 1
        entries = content(wheel)
        with zipfile.ZipFile(wheel) as file:
            (tmp_path / "jar").write_bytes(file.read(JAR))
        for name, data in {**entries, **content(tmp_path / "jar")}.items():
            assert str(here.parent).encode() not in data, name
            assert str(ROOT).encode() not in data, name

    def test_the_checkout_stays_without_a_jar(self, wheel: Path, here: Path) -> None:
        assert not (here / JAR).exists()

    def test_without_a_compiler_nothing_is_made_and_one_sentence_says_why(
        self, tmp_path: Path
    ) -> None:
        folder = checkout(tmp_path / "here")
        for call in ("build_wheel", "build_sdist"):
            done = backend(folder, f"{call}('out')", bare())
            assert done.returncode == 1
            (told,) = done.stderr.splitlines()
            assert told.startswith("bsjoin cannot be packaged: the jar for Spark's JVM is missing")
            assert "there is no javac on the PATH or in JAVA_HOME" in told
            assert told.endswith("which have the jar.")
            assert list((folder / "out").glob("*")) == []

    def test_sources_that_do_not_compile_are_no_package(self, tmp_path: Path) -> None:
        folder = checkout(tmp_path / "here")
        (folder / "bsjoin/runtimes/jvm/java/bsjoin/jvm/storage/Code.java").write_text(
            "class Code {"
        )
        done = backend(folder, "build_wheel('out')")
        assert done.returncode == 1
        assert "cannot compile the look-up functions" in done.stderr
        assert "Traceback" not in done.stderr

    def test_an_editable_installation_needs_no_compiler(self, here: Path) -> None:
        program = (
            "import sys; sys.path.insert(0, 'scripts'); import build_jar; made = {}; "
            "build_jar.JarHook('.', {}, None, None, '', 'wheel').initialize('editable', made); "
            "print(made)"
        )
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=here, env=bare(), capture_output=True, text=True)
        assert done.stdout == "{}\n", done.stderr


class TestMadeFromASourceDistribution:
    def test_the_wheel_is_that_of_the_checkout_and_needs_no_compiler(
        self, unpacked: Path, wheel: Path
    ) -> None:
        assert made(unpacked, "build_wheel", bare()).read_bytes() == wheel.read_bytes()

    def test_a_jar_of_other_sources_is_not_packed(self, unpacked: Path, tmp_path: Path) -> None:
        folder = tmp_path / "changed"
        shutil.copytree(unpacked, folder)
        source = folder / "bsjoin/runtimes/jvm/java/bsjoin/jvm/storage/Code.java"
        source.write_text(source.read_text("utf-8") + "\n// changed\n", "utf-8")
        assert backend(folder, "build_wheel('out')", bare()).returncode == 1


@pytest.mark.parametrize("call", ["get_requires_for_build_wheel", "get_requires_for_build_sdist"])
def test_spark_is_asked_for_only_where_the_jar_is_compiled_against_it(
    here: Path, unpacked: Path, tmp_path: Path, call: str
) -> None:
    """It is 450 MB: an isolated build has nothing but what it asks for."""
    without_spark = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: "
    without_spark += "None if n == 'pyspark' else f(n); "

    def asked(folder: Path, environment: dict[str, str], call: str = call) -> str:
        program = without_spark + BACKEND % f"package_backend.{call}()"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    with_compiler = {"PATH": str(compiler.parent)}
    assert "'pyspark>=4.1'" in asked(here, with_compiler)
    assert "pyspark" not in asked(here, bare())
    assert "pyspark" not in asked(here, with_compiler, "get_requires_for_build_editable")
    assert "pyspark" not in asked(unpacked, with_compiler)
    (home := tmp_path / "spark").mkdir()
    (home / "jars").mkdir()
    (home / "jars" / "spark-catalyst_2.13-4.1.0.jar").touch()
    assert "pyspark" not in asked(here, {**with_compiler, "SPARK_HOME": str(home)})


class TestInstalled:
    @pytest.fixture
    def site(self, wheel: Path, tmp_path: Path) -> Path:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(tmp_path / "site")
        return tmp_path / "site"

    def run(self, site: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        (temporary := site.parent / "tmp").mkdir()
        found = {"PYTHONPATH": str(site), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        program = "import bsjoin; print(bsjoin.jar())"
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=temporary,
            env={**environment, **found},
            capture_output=True,
            text=True,
        )

    def test_the_jar_is_in_the_package_and_nothing_is_written_anywhere(self, site: Path) -> None:
        before = sorted(site.rglob("*"))
        done = self.run(site, dict(os.environ))
        assert done.stdout.strip() == str(site / JAR), done.stderr
        assert sorted(site.rglob("*")) == before
        assert list((site.parent / "tmp").iterdir()) == []

    def test_a_package_that_has_lost_its_jar_says_so_and_compiles_none(self, site: Path) -> None:
        (site / JAR).unlink()
        done = self.run(site, dict(os.environ))
        assert "WorkerEnvironmentError" in done.stderr
        assert "is missing, so this installation of bsjoin is not complete" in done.stderr
        assert not (site / JAR).exists()


class TestACheckoutAtRunTime:
    @pytest.fixture(autouse=True)
    def _empty(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(jars, "PACKAGED", tmp_path / "none.jar")
        monkeypatch.setattr(jars.tempfile, "tempdir", str(tmp_path))

    def test_the_jar_is_compiled_into_a_folder_of_this_user(self, tmp_path: Path) -> None:
        compiled = Path(bsjoin.jar())
        assert compiled.is_relative_to(tmp_path)
        assert compiling.build_of(compiled) == jars.build_of_sources()
        assert stat.S_IMODE(compiled.parent.stat().st_mode) == 0o700
        # A folder that others can write to may hold anything.
        compiled.parent.chmod(0o777)
        with pytest.raises(WorkerEnvironmentError, match=r"cannot be written.*other users can"):
            bsjoin.jar()

    def test_the_compiler_may_be_in_java_home_only(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        compiler = compiling.javac()
        assert compiler is not None
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv("JAVA_HOME", str(Path(compiler).resolve().parents[1]))
        assert Path(bsjoin.jar()).is_relative_to(tmp_path)

    def test_without_any_compiler_the_error_says_what_to_do(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(WorkerEnvironmentError, match=r"no javac .*install a JDK.*or take"):
            bsjoin.jar()


class TestRequirements:
    """What is declared is used, and what is used is declared; a Spark that is there stays."""

    def test_every_one_is_imported_and_none_of_them_is_spark(self) -> None:
        imported = {
            name.partition(".")[0]
            for part in ("bsjoin", "scheduling")
            for path in (ROOT / part).rglob("*.py")
            for name in re.findall(r"(?m)^ *(?:import|from) ([\w.]+)", path.read_text("utf-8"))
        }
        assert imported >= ALWAYS
        assert {"pyspark", "pandas", "py4j", "pyspark-client"}.isdisjoint(ALWAYS)

    @pytest.mark.parametrize("extra", ["spark", "connect", "examples", "dev"])
    def test_spark_comes_with_the_extras_that_run_it(self, extra: str) -> None:
        extras = PROJECT["optional-dependencies"]

        def names(extra: str) -> set[str]:
            found = set()
            for one in extras[extra]:
                nested = re.match(r"bsjoin\[([\w,]+)\]", one)
                found |= set().union(*map(names, nested[1].split(","))) if nested else {one}
            return found

        assert any(one.startswith("pyspark[") for one in names(extra))
        assert any(one.startswith("pandas>=") for one in names(extra))

    @pytest.mark.parametrize(
        ("absent", "told"),
        [
            (
                "pyspark",
                r"ModuleNotFoundError: bsjoin needs PySpark 4\.1 .*, and '.*' has none",
            ),
            ("pandas", r"WorkerEnvironmentError: Spark makes functions .* with pandas only, and"),
        ],
    )
    def test_an_environment_without_it_is_told_what_to_install(
        self, absent: str, told: str
    ) -> None:
        program = (
            "import importlib.util as u; find = u.find_spec; "
            f"u.find_spec = lambda name: None if name == {absent!r} else find(name); "
            "import bsjoin; bsjoin.join; from bsjoin.spark import workers; workers._reports(None)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert re.search(told + r".*run `pip install '", done.stderr), done.stderr

    def test_the_package_of_a_mere_connect_client_suffices(self) -> None:
        """It has neither py4j nor what is Spark's core."""
        program = (
            "import sys; sys.modules['pyspark.core'] = None; sys.modules['py4j'] = None; "
            "import bsjoin; [getattr(bsjoin, name) for name in bsjoin.__all__]; "
            "import bsjoin.runtimes.apply; from pyspark.util import is_remote_only; "
            "print(is_remote_only())"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout == "True\n", done.stderr
