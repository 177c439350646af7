"""A stored table that several applications bring up to date: they have to read the same."""

from __future__ import annotations

from bsjoin.errors import SourceError
from bsjoin.following.protocol import SourceVersion

__all__ = ["Taken"]


class Taken:
    """Whether a table that had what one source reads was given what another one reads.

    At a start a table is taken over: the code may be a newer one. After that, two that read
    different things would replace the rows of each other for ever.
    """

    def __init__(self) -> None:
        self._had = False

    def check(self, version: SourceVersion, until: SourceVersion) -> None:
        """Compare the version that the table has with one of the source.

        Raises:
            SourceError: another application has taken the table over since the last time.
        """
        if version.selection == until.selection:
            self._had = True
        elif self._had:
            raise SourceError(
                f"this table does not follow {until.source} any more: another application has put "
                f"rows of {version.source} into it, with other filters, columns or settings of the "
                "session, or by operators that cannot be compared (docs/how-to/table.md, "
                '"When is a source unchanged?"). Give each its own store, or end one of them and '
                "start the other again"
            )
