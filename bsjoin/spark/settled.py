"""Files that are just being written: their list is no version until it is complete.

Files have no commits. Spark's overwrite removes a folder, runs its job, and moves the files one by
one; others copy file after file. A list that has changed is taken for a version when nothing says
that its folder is being written, and it has stayed the same for a while.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bsjoin._secrets import scrubbed
from bsjoin.errors import SourceError
from bsjoin.spark.leaves import Files, Leaf, listed
from bsjoin.storage.source_version import SourceVersion

# Folders of jobs that have not ended: of Hadoop's committers, of Spark's, Hive's and S3A's.
_BEING_WRITTEN = "{_temporary,.spark-staging*,.hive-staging*,__magic*}"
_SUCCESS = "_SUCCESS"
_QUIET_S = 2.0
_PATIENCE_S = 600.0


class Settled:
    """Which versions of a source are complete, as far as its files tell."""

    def __init__(self, leaves: Sequence[Leaf]):
        self._files = [leaf for leaf in leaves if isinstance(leaf, Files)]
        self._taken: SourceVersion | None = None
        self._had_success = False
        self._new: SourceVersion | None = None
        self._since_s = self._waits_since_s = 0.0

    def settled(self, version: SourceVersion | None) -> SourceVersion | None:
        """The version that was found; None if its files may be a part of what is being written.

        Raises:
            SourceError: that has been so for ten minutes.
        """
        if not self._files or version is None or version == self._taken:
            self._waits_since_s = 0.0
            return version
        now_s = time.monotonic()
        if version != self._new:
            self._new, self._since_s = version, now_s
        self._waits_since_s = self._waits_since_s or now_s
        why = self._why_not(now_s)
        if why is None:
            self._taken, self._waits_since_s = version, 0.0
            self._had_success = bool(self._found(_SUCCESS))
            return version
        if now_s - self._waits_since_s >= _PATIENCE_S:
            raise SourceError(
                f"{version.source}: what is there has not been complete for "
                f"{_PATIENCE_S / 60:.0f} minutes, so the table stays as it is: {why}"
            )
        return None

    def _why_not(self, now_s: float) -> str | None:
        signs = self._found(_BEING_WRITTEN)
        if signs:
            return f"{scrubbed(signs[0], ())} says that a job writes them; remove it if none does"
        quiet_s = now_s - self._since_s
        if quiet_s < _PATIENCE_S:  # what stays so for long is meant so
            if not all(len(leaf.node.relation().location().inputFiles()) for leaf in self._files):
                return "there is no file"
            if self._had_success and not self._found(_SUCCESS):
                return f"there is no {_SUCCESS} any more"
        if self._taken is not None and quiet_s < _QUIET_S:
            return "they have just changed"
        return None

    def _found(self, pattern: str) -> list[str]:
        found = []
        for leaf in self._files:
            settings = leaf.spark.sessionState().newHadoopConf()
            for root in listed(leaf.node.relation().location().rootPaths()):
                folder = root.getFileSystem(settings)
                for status in folder.globStatus(root.suffix(f"/{pattern}")) or ():
                    found.append(str(status.getPath()))
        return found
