"""What a command answers: as text for people, and as data for programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    Args:
        text: for people; without a line end.
        data: the same for programs, of what JSON knows, records, times and texts.
        sound: False (default: True) if a fault was found: the exit status is then 1.
    """

    text: str
    data: object
    sound: bool = True
