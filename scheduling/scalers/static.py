"""Static: a constant number of cores, as in Storm; a baseline of OERA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduling.model.checks import number
from scheduling.scalers.load import Load

__all__ = ["Static"]


@dataclass(frozen=True)
class Static:
    """Keep the cores that there are, or want a given number.

    Args:
        count: the number of cores; None (default): as many as there are.

    Raises:
        ArgumentError: ``count`` is not above 0.

    >>> [one.cores(Load(10, 9e9, 500, 1.0, 1e9, 4)) for one in (Static(), Static(6))]
    [4, 6]
    """

    count: float | None = None
    name: ClassVar[str] = "static"

    def __post_init__(self) -> None:
        if self.count is not None:
            number("count", self.count, above=True)

    def cores(self, load: Load) -> float:
        """The constant number; see :class:`scheduling.scalers.Scaler`."""
        return load.cores if self.count is None else self.count
