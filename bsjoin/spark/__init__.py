"""Spark as bsjoin finds it: sessions, types, expressions, plans of DataFrames, Python workers.

The driver's code uses DataFrame calls only (no RDD, no JVM object), so that classic sessions and
Spark Connect run the same code. The few things that need more are in :mod:`bsjoin.spark.session`,
each with its way round.
"""

import sys
from importlib.util import find_spec

# An extra of bsjoin, since pip would put another Spark in the place of a cluster's own.
if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        f"bsjoin needs PySpark 4.1 or newer, and {sys.executable!r} has none: run "
        "`pip install 'bsjoin[spark]'`, or use the Python that your cluster's Spark comes with",
        name="pyspark",
    )

from pyspark import __version__

from bsjoin.spark.session import too_old

if _against := too_old(__version__):
    raise ImportError(_against)
