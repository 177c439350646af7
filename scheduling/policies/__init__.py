"""The policies: a file each, whose docstring states its assumptions and source; and their names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from scheduling.errors import ArgumentError, did_you_mean
from scheduling.policies.baselines import FirstFit, Random, RoundRobin, Spread
from scheduling.policies.cetsa import CETSA
from scheduling.policies.data_locality import DataLocality
from scheduling.policies.exact import Exact
from scheduling.policies.gs_bfd import GSBFD
from scheduling.policies.lba_ce import LBACE
from scheduling.policies.local_search import LocalSearch
from scheduling.policies.resource_aware import ResourceAware
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
