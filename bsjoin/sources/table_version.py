"""The version of a source's table, as a table that follows it asks for it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TableVersion"]


@dataclass(frozen=True)
class TableVersion:
    """A version of a table.

    Args:
        name: of the table, in words.
        text: the version; of others of this table it says something only with the same identity.
        committed_at_us: when it was committed; None if that is not known.
        identity: of the table, its columns and files.
    """

    name: str
    text: str
    committed_at_us: int | None
    identity: str
