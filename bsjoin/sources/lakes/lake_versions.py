"""The versions of a table of Delta or Iceberg, of which each is read whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from bsjoin.sources.table_version import TableVersion

__all__ = ["LakeVersions"]


class LakeVersions:
    """Looks at a table of a lake, as those of :class:`..databases.pgchanges.TableChanges`.

    Args:
        newest: asks for the newest version.
    """

    key: tuple[str, ...] = ()

    def __init__(self, newest: Callable[[], TableVersion]):
        self.version = newest

    def has(self, version: str, until: str) -> bool:
        """Whether a table at one version has another one, too."""
        return version == until

    def rows(self, since: str, until: str, columns: Sequence[str]) -> pa.Table | None:
        """None: what has changed is not told."""
        return None
