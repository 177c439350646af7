"""All code that uses Spark; no other part of bsjoin imports pyspark.

DataFrame calls only (no RDD, no JVM object), so that classic sessions and Spark Connect run
the same code. The few things that need more are in :mod:`bsjoin._spark.session`, each with its
way round.
"""

from pyspark import __version__

from bsjoin._spark.session import too_old

if _against := too_old(__version__):
    raise ImportError(_against)
