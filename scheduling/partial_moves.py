"""Names of :mod:`scheduling.splits` for modules that have not moved yet."""

from scheduling.splits import dropped_shares, indices

__all__ = ["dropped_shares", "indices"]
