"""The policies by name; the docstring of each module states its assumptions and source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from scheduling.errors import ArgumentError, did_you_mean
from scheduling.policies.cheapest import Exact, LocalSearch
from scheduling.policies.cost_efficient import CETSA, LBACE
from scheduling.policies.greedy import GSBFD, FirstFit, Random, RoundRobin, Spread
from scheduling.policies.nearest import DataLocality, ResourceAware
from scheduling.protocols import Policy

__all__ = ["CETSA", "GSBFD", "LBACE", "POLICIES", "DataLocality", "Exact", "FirstFit"]
__all__ += ["LocalSearch", "Random", "ResourceAware", "RoundRobin", "Spread", "policy"]

_KINDS = CETSA, DataLocality, Exact, FirstFit, GSBFD, LBACE, LocalSearch, Random, ResourceAware

POLICIES: dict[str, Callable[..., Policy]] = {
    **{kind.name: kind for kind in _KINDS},
    "round-robin": RoundRobin,
    "spread": Spread,
    "twister2-round-robin": partial(RoundRobin, restart=True),
}
"""The constructor of each policy, by its name; options are keyword arguments."""


def policy(name: str, **options: Any) -> Policy:
    """A policy by its name.

    Args:
        name: a key of :data:`POLICIES`.
        options: keyword arguments of the policy's class.

    Raises:
        ArgumentError: the name or an option is unknown, or a value is invalid.

    >>> policy("random", seed=3)
    Random(seed=3)
    """
    if name not in POLICIES:
        raise ArgumentError(f"there is no policy {name!r}. {did_you_mean(name, POLICIES)}")
    try:
        return POLICIES[name](**options)
    except TypeError as error:
        raise ArgumentError(f"policy {name!r} with {options!r}: {error}") from None
