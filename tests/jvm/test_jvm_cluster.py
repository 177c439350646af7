"""Executors die, join and straggle, and their table changes: the JVM's answers stay right."""

from __future__ import annotations

import sys

import pytest
from checks_apart import each, passes
from cluster_checks import CHECKS

QUICK, *OTHERS = CHECKS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is no address elsewhere"),
]


@each([QUICK, *(pytest.param(check, marks=pytest.mark.long) for check in OTHERS)])
def test_on_a_cluster(check: str) -> None:
    """Each on a cluster of its own: the others take a minute."""
    passes("jvm/cluster_checks.py", check, check)
