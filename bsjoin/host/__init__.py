"""Everything temporary that bsjoin keeps on a host: private folders, their owners, their removal.

::

    <parent>/bsjoin-<uid>/      of this user, mode 0700; locked while a folder is found or swept
        cache-<token>/          locked, shared, by every process that uses it; or a link to it
            owners/parent-<id>  the process that it is kept for while no process uses it

Knows nothing of tables, caches or Spark's classes (docs/decisions/0011-host-folders.md).
"""

from bsjoin.host.folders import HostFolder, HostRoot, temporary_folder
from bsjoin.host.private import private_folder

__all__ = ["HostFolder", "HostRoot", "private_folder", "temporary_folder"]
