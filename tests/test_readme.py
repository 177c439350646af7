"""The README: its programs are Python, and what it refers to is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_compiles_and_imports_names_that_exist(program: str) -> None:
    compile(program, "README.md", "exec")
    for module, names in re.findall(
        r"^from ((?:bsjoin|scheduling)[.\w]*) import (.*)", program, re.M
    ):
        for name in names.split(", "):
            assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("page", ["docs/trust.md", "docs/decisions/"])
def test_a_page_is_named_and_there(page: str) -> None:
    assert f"`{page}`" in README
    assert (ROOT / page).exists()


def test_no_program_pairs_the_policy_with_the_rebalancer_that_works_against_it() -> None:
    # LBA-CE and St-Stream never come to rest together on executors of equal price.
    assert [p for p in PROGRAMS if "LBACE" in p and "StStream" in p] == []
