"""How much a change of the placement must gain, and whether it must wait for the cooldown."""

from __future__ import annotations

from scheduling.errors import ArgumentError

__all__ = ["Margin"]

_SETTLING = 3  # measured cycles after a disturbance in which small gains count, too
_SMALL = 0.02  # the margin then
_DEVIATIONS = 2.0  # of the loads, that a gain must exceed


class Margin:
    """The share of the present cost that a change must gain.

    Args:
        hysteresis: the share at rest.

    Raises:
        ArgumentError: it is no share below 1.
    """

    def __init__(self, hysteresis: float) -> None:
        if not 0 <= hysteresis < 1:
            raise ArgumentError(f"hysteresis={hysteresis!r}: give a share, 0 to below 1")
        self._hysteresis = hysteresis
        self._settling = self._correcting = 0

    @property
    def correcting(self) -> bool:
        """Whether a plan made without measured loads is being corrected: no cooldown applies."""
        return self._correcting > 0

    def measured(self) -> None:
        """The loads are measured for the first time."""
        self._correcting = self._settling = _SETTLING

    def disturbed(self) -> None:
        """Workers or tasks have come or gone."""
        self._settling = _SETTLING

    def passed(self) -> None:
        """One more cycle has been decided."""
        self._correcting = max(0, self._correcting - 1)
        self._settling = max(0, self._settling - 1)

    def share(self, noise: float) -> float:
        """The share; at least two standard deviations of the loads.

        Args:
            noise: the standard deviation of a worker's load, as a share of it.
        """
        return max(_SMALL if self._settling else self._hysteresis, _DEVIATIONS * noise)
