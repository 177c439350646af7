"""Index structures: built from sorted arrays, probed a whole batch at a time.

Pure numpy: nothing here knows of Spark, of files or of Arrow.
"""

from bsjoin.index.hash import HashIndex

__all__ = ["HashIndex"]
