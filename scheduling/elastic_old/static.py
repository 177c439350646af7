"""Static: a constant parallelism, as in Storm; the baseline of OERA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["Static"]


@dataclass(frozen=True)
class Static:
    """Keep the current parallelism, or a given one per operator.

    Args:
        instances: the parallelism of operators; a missing operator keeps its own (default: all).

    Raises:
        ArgumentError: a number is below 1.
    """

    instances: Mapping[str, int] = field(default_factory=dict)
    name: ClassVar[str] = "static"

    def __post_init__(self) -> None:
        for operator, count in self.instances.items():
            if count < 1:
                raise ArgumentError(f"instances={count!r} of {operator!r}: give 1 or more")

    def parallelism(self, operator: str, window: Window) -> int:
        """The given parallelism, else the window's; see :class:`scheduling.Scaler`."""
        return self.instances.get(operator, window.parallelism)
