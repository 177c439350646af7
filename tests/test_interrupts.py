"""Ctrl-C in a build, in a process of its own."""

from __future__ import annotations

import checks_apart
import interrupt_checks
import pytest

pytestmark = pytest.mark.long


@checks_apart.each(interrupt_checks.CHECKS)
def test_what_ctrl_c_leaves(check: str) -> None:
    checks_apart.passes("interrupt_checks.py", check)
