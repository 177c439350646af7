"""A scaler whose answers stay within bounds."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.elastic import Static
from scheduling.model import Window
from scheduling.protocols import Scaler

__all__ = ["Bounded"]


class Bounded:
    """A scaler with bounds; :class:`scheduling.Static` changes nothing and has none.

    Args:
        scaler: the scaler.
        bounds: returns the minimum and the maximum.
    """

    def __init__(self, scaler: Scaler, bounds: Callable[[], tuple[int, int]]) -> None:
        self._scaler, self._bounds = scaler, bounds

    @property
    def name(self) -> str:
        """The scaler's name."""
        return self._scaler.name

    def parallelism(self, operator: str, window: Window) -> int:
        """The scaler's answer, or the nearest bound; see :class:`scheduling.Scaler`."""
        wanted = self._scaler.parallelism(operator, window)
        if isinstance(self._scaler, Static):
            return wanted
        least, most = self._bounds()
        return int(min(max(wanted, least), most))
