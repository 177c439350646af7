"""A cache in shared memory: one per host, used by all of its worker processes at once.

Pure numpy and pyarrow: nothing here knows of Spark, of sources or of time zones. A cache is a
folder of memory-mapped files, in ``/dev/shm`` where there is one, so it outlives the process
that filled it and costs the host its size once, whatever the number of processes.
"""

from bsjoin.shared.cache import HostCache
from bsjoin.shared.entry_state import CacheLimits, Found, State
from bsjoin.shared.locks import ConnectionSemaphore, only_one
from bsjoin.shared.places import cache_folder, remove_at_exit

__all__ = [
    "CacheLimits",
    "ConnectionSemaphore",
    "Found",
    "HostCache",
    "State",
    "cache_folder",
    "only_one",
    "remove_at_exit",
]
