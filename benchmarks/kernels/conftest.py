"""Sizes of the kernels, and what a benchmark says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

SEED = 20261122


Ints = NDArray[np.int64]

Timed = Callable[..., Any]
"""Times a kernel and returns its result.

Its arguments: the ``kernel``; ``many``, the number of keys or rows of one call; the name of the
``reference``, a plain way to do the same; their ``unit``; and ``fresh``, which makes the arguments
of each call, untimed, for kernels that change them.
"""


@dataclass(frozen=True)
class Sizes:
    """How large everything is.

    Args:
        rows: of an index or a cache.
        probes: of a batch; the size of an Arrow batch in Spark.
        rounds: of kernels that need fresh arguments.
    """

    rows: int
    probes: int
    rounds: int


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick``."""
    parser.addoption("--quick", action="store_true", help="kernels: small sizes, half a minute")


@pytest.fixture(scope="session")
def sizes(request: pytest.FixtureRequest) -> Sizes:
    """The requested sizes."""
    quick = request.config.getoption("--quick")
    return Sizes(100_000, 10_000, 15) if quick else Sizes(2_000_000, 10_000, 30)


@pytest.fixture
def random() -> np.random.Generator:
    """Random numbers, the same for each test."""
    return np.random.default_rng(SEED)


@pytest.fixture
def timed(benchmark: Any, request: pytest.FixtureRequest, sizes: Sizes) -> Timed:
    """Time a kernel and keep what one needs to read the figures."""

    def run(
        kernel: Callable[..., Any],
        many: int,
        reference: str | None = None,
        *,
        unit: str = "key",
        fresh: Callable[[], tuple[Any, ...]] | None = None,
    ) -> Any:
        benchmark.group = request.node.module.__name__.rpartition("_")[2]
        benchmark.extra_info.update(many=many, unit=unit, reference=reference)
        if fresh is None:
            return benchmark(kernel)
        return benchmark.pedantic(
            kernel, setup=lambda: (fresh(), {}), rounds=sizes.rounds, warmup_rounds=1
        )

    return run
