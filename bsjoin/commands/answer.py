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


def printable(text: str) -> str:
    """The text on one line; what moves a terminal's cursor, or does worse, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
