"""What `make` installs: no more than a target needs, and nothing twice."""

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


def test_the_demo_installs_its_extra_only_and_the_tests_add_the_rest(installed: list[str]) -> None:
    bootstrap.ensure_venv("examples")
    bootstrap.ensure_venv("examples")
    assert installed == [".[examples]"]
    bootstrap.ensure_venv()
    bootstrap.ensure_venv()
    assert installed == [".[examples]", ".[dev]"]


def test_an_environment_with_everything_suffices_and_keeps_everything(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.ensure_venv()
    bootstrap.ensure_venv("examples")
    assert installed == [".[dev]"]
    monkeypatch.setattr(bootstrap, "wanted_stamp", lambda: [bootstrap.read_stamp()[0], "changed"])
    bootstrap.ensure_venv("examples")
    assert installed == [".[dev]", ".[dev]"]


def test_what_an_interrupted_installation_left_is_not_trusted(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.ensure_venv("examples")
    monkeypatch.setattr(bootstrap, "run_in_venv", lambda arguments, lock: -2)
    with pytest.raises(SystemExit, match="pip ended with status -2"):
        bootstrap.ensure_venv()
    assert bootstrap.read_stamp() == []
