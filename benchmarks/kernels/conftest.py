"""Sizes of the kernels, and the fixture that times one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Timed = Callable[..., None]


class Sizes(NamedTuple):
    """Rows of an index or a cache; probes of a batch, as in an Arrow batch of Spark."""

    rows: int
    probes: int

    def random(self) -> np.random.Generator:
        """Random numbers, the same for each kernel."""
        return np.random.default_rng(20261122)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", type=int, default=2_000_000, help="kernels: of an index or a cache")
    parser.addoption("--probes", type=int, default=10_000, help="kernels: of a batch")


@pytest.fixture(scope="session")
def sizes(request: pytest.FixtureRequest) -> Sizes:
    return Sizes(request.config.getoption("rows"), request.config.getoption("probes"))


@pytest.fixture
def timed(benchmark: Any, request: pytest.FixtureRequest) -> Timed:
    """Times a function of so many keys or rows, after the test has checked what it returns.

    ``over`` is the name of a kernel of the file that is a plain way to do the same; ``unit`` is of
    what it is timed; ``fresh`` makes the arguments of each call, untimed, if the call changes them.
    """
    case = getattr(request.node, "callspec", None)
    benchmark.group = request.path.stem.removeprefix("test_")
    benchmark.name = case.id if case else request.node.name[len("test_") :].replace("_", " ")

    def run(
        call: Callable[..., object], many: int, over: str | None = None, unit: str = "key",
        fresh: Callable[[], tuple[Any, ...]] | None = None,
    ) -> None:  # fmt: skip
        benchmark.extra_info.update(many=many, unit=unit, reference=over)
        if fresh is None:
            benchmark(call)
        else:
            rounds = request.config.getoption("benchmark_min_rounds")
            setup = lambda: (fresh(), {})  # noqa: E731
            benchmark.pedantic(call, setup=setup, rounds=rounds, warmup_rounds=2)

    return run
