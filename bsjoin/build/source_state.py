"""The state of a source, for the version of a table that is made of it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from bsjoin.spark.fingerprint import Identity, identity, renew
from bsjoin.storage import Manifest, SourceVersion, StorageLocation, versions


class SourceState:
    """The source of a version: the state of a DataFrame as it is when this is created.

    Args:
        df: the DataFrame; whatever has been cached of its tables is read anew.
        fingerprint: the user's own word for its state; None (default): computed.
        followed: the version whose rows it has, of a source that is followed; None (default) for
            others.
    """

    def __init__(
        self,
        df: DataFrame,
        fingerprint: str | None = None,
        followed: SourceVersion | None = None,
    ):
        self.is_renewed = followed is not None or renew(df)
        self.followed = followed
        self._df = df
        self._given = fingerprint
        self._found = self._now()

    def _now(self) -> Identity:
        if self.followed is not None:
            return Identity(None, self.followed)
        return identity(self._df) if self._given is None else Identity(self._given)

    def is_of(self, location: StorageLocation, manifest: Manifest) -> bool:
        """Whether a version was made of it."""
        known, version = self._found
        if version is not None and manifest.source == version:
            return known is not None or self.followed is not None
        return known is not None and versions.is_marked(location, manifest, known)

    def again(self) -> SourceState:
        """Its state as it is now."""
        return SourceState(self._df, self._given)

    def unchanged(self) -> Identity:
        """What identifies it; nothing if nothing does, or it has changed meanwhile."""
        if self._found.fingerprint is None and self.followed is None:
            return Identity(None)
        return self._found if self._found == self._now() else Identity(None)

    def mark(self, location: StorageLocation, manifest: Manifest) -> None:
        """Note that a version was made of it, unless it has changed meanwhile."""
        if self.is_of(location, manifest):
            return
        known = self.unchanged().fingerprint
        if known is not None:
            versions.mark(location, manifest, known)
