"""Static: the parallelism that was set at the start. Storm's way, and OERA's baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["Static"]


@dataclass(frozen=True)
class Static:
    """Keep the parallelism there is, or one given by operator.

    Args:
        instances: by operator; an operator that is missing keeps what its window says.

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
        """The number given, else the window's."""
        return self.instances.get(operator, window.parallelism)
