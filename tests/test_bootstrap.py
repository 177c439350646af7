"""What `make` installs: no more than a target needs, nothing twice, and a Java that fits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))
import bootstrap  # noqa: E402


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What pip is asked to install, in an environment that is made of nothing."""
    extras: list[str] = []

    def make(lock: int) -> None:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "python").touch()

    def run(arguments: list[str], lock: int) -> int:
        extras.append(arguments[-1])
        return 0

    monkeypatch.setattr(bootstrap, "VENV_PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(bootstrap, "make_venv", make)
    monkeypatch.setattr(bootstrap, "run_in_venv", run)
    return extras


def test_a_target_installs_its_extra_once_and_everything_suffices_for_each(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ("examples", "examples", "dev", "dev", "examples"):
        bootstrap.ensure_venv(extra)
    assert installed == [".[examples]", ".[dev]"]
    monkeypatch.setattr(bootstrap, "wanted_stamp", lambda: [bootstrap.read_stamp()[0], "changed"])
    bootstrap.ensure_venv("examples")
    assert installed == [".[examples]", ".[dev]", ".[dev]"]


def test_what_an_interrupted_installation_left_is_not_trusted(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.ensure_venv("examples")
    before = bootstrap.read_stamp()
    for status, left in ((1, before), (-2, [])):  # pip undoes its changes, if it is not killed
        monkeypatch.setattr(bootstrap, "run_in_venv", lambda arguments, lock, s=status: s)
        with pytest.raises(SystemExit, match=f"pip ended with status {status}"):
            bootstrap.ensure_venv()
        assert bootstrap.read_stamp() == left


def test_the_first_java_that_spark_supports_is_used_else_one_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("8", "17", "17-jre", "21"):
        java, version = tmp_path / name / "bin" / "java", name.removesuffix("-jre")
        java.parent.mkdir(parents=True)
        if name == version:
            java.with_name("javac").touch()
        told = f"    java.home = {java.parent.parent}\\n    java.specification.version = {version}"
        java.write_text(f"#!/bin/sh\nprintf '{told}\\n' >&2\n")
        java.chmod(0o755)
    broken = tmp_path / "0" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("no program")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "8"))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: str(broken))
    homes = [str(tmp_path / "[12]*")]
    monkeypatch.setattr(bootstrap, "JAVA_HOMES", homes)
    assert bootstrap.ensure_java() == str(tmp_path / "17")
    assert f"using Java 17 in {tmp_path / '17'}" in capsys.readouterr().err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "21"))
    assert bootstrap.ensure_java() == str(tmp_path / "21")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "17-jre"))  # it compiles no jar
    assert bootstrap.ensure_java() == str(tmp_path / "17")

    can_be_had: list[str] = []

    def install(choices: dict[str, list[str]]) -> bool:
        assert choices is bootstrap.JAVA_PACKAGES
        homes.extend(can_be_had)
        return bool(can_be_had)

    monkeypatch.setattr(bootstrap, "install_system_package", install)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "8"))
    homes.clear()
    with pytest.raises(SystemExit, match="17 or 21 and this machine has only Java 8 in"):
        bootstrap.ensure_java()
    can_be_had.append(str(tmp_path / "21"))
    assert bootstrap.ensure_java() == str(tmp_path / "21")
    homes.clear()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "17-jre"))
    assert bootstrap.ensure_java() == str(tmp_path / "21")
    homes.clear()
    can_be_had.clear()
    assert bootstrap.ensure_java() == str(tmp_path / "17-jre")
    assert "has no javac" in capsys.readouterr().err
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(SystemExit, match="this machine has none: install one"):
        bootstrap.ensure_java(may_install=False)
