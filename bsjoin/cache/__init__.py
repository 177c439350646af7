"""A cache in shared memory: one per host, shared by all its worker processes.

Pure numpy and pyarrow: independent of Spark, sources and time zones. A cache is a folder of
memory-mapped files, in ``/dev/shm`` if it exists. It outlives the process that filled it and needs
its memory once per host, for any number of processes.
"""

from bsjoin.cache.cache import HostCache
from bsjoin.cache.entry_state import CacheLimits, Found, State
from bsjoin.cache.locks import ConnectionSemaphore, only_one
from bsjoin.cache.places import cache_folder, remove_at_exit

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
