"""Everything temporary that bsjoin keeps on a host: private folders, their owners, their removal.

::

    <parent>/bsjoin-<uid>/          of this user, mode 0700; refused unless it is
        lock                        held while a folder is made, found or swept
        cache-<token>/              a folder; or a link to it, where it had to lie elsewhere
            owners/lock             locked by every process that uses the folder
            owners/process-<id>     who it is kept for

Knows nothing of tables, caches or Spark's classes (docs/decisions/0011-host-folders.md).
"""

from bsjoin.host.folders import HostFolder, HostRoot, temporary_folder
from bsjoin.host.private import private_folder

__all__ = ["HostFolder", "HostRoot", "private_folder", "temporary_folder"]
