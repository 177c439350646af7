"""The policies by name; the docstring of each module states its assumptions and source."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from scheduling.errors import ArgumentError
from scheduling.policies.cetsa import CETSA
from scheduling.policies.data_locality import DataLocality
from scheduling.policies.exact import Exact
from scheduling.policies.first_fit import FirstFit
from scheduling.policies.gs_bfd import GSBFD
from scheduling.policies.lba_ce import LBACE
from scheduling.policies.local_search import LocalSearch
from scheduling.policies.random import Random
from scheduling.policies.resource_aware import ResourceAware
from scheduling.policies.round_robin import RoundRobin
from scheduling.policies.spread import Spread
from scheduling.protocols import Policy

__all__ = ["CETSA", "GSBFD", "LBACE", "POLICIES", "DataLocality", "Exact", "FirstFit"]
__all__ += ["LocalSearch", "Random", "ResourceAware", "RoundRobin", "Spread", "policy"]

POLICIES: dict[str, Callable[..., Policy]] = {
    "cetsa": CETSA,
    "data-locality": DataLocality,
    "exact": Exact,
    "first-fit": FirstFit,
    "gs-bfd": GSBFD,
    "lba-ce": LBACE,
    "local-search": LocalSearch,
    "random": Random,
    "resource-aware": ResourceAware,
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
        close = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(POLICIES)}"
        raise ArgumentError(f"there is no policy {name!r}. {hint}")
    try:
        return POLICIES[name](**options)
    except TypeError as error:
        raise ArgumentError(f"policy {name!r} with {options!r}: {error}") from None
