"""Temporary files of bsjoin on a host: private folders, their owners, their removal.

::

    <parent>/bsjoin-<uid>/      of this user, mode 0700; locked while a folder is found or swept
                cache-<token>-<boot>/   share-locked by every process that uses it; or a link to it
            owners/parent-<id>  the process for which it is kept while no process uses it

Independent of tables, caches and Spark (docs/decisions/0011-host-folders.md).
"""

from bsjoin.host.file_systems import is_of_one_machine
from bsjoin.host.folders import HostFolder, HostRoot, temporary_folder
from bsjoin.host.private import private_folder

__all__ = ["HostFolder", "HostRoot", "is_of_one_machine", "private_folder", "temporary_folder"]
