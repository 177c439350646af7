"""Scalers: how many cores a job needs, from what was measured of it. Pure, without a clock.

===========  ======================================================  ==============
scaler       wants                                                   source
===========  ======================================================  ==============
``OERA``     a buffer between two thresholds; ``literal=True``: as   OERA, Alg. 1
             printed
``DS2``      arrival over the true rate of a core                    DS2 (OSDI 2018)
``Median``   the median of another scaler's answers                  OERA, 4.2
``Static``   what there is, or a given number                        OERA, 4.2
``Probe``    more while all cores are busy: where arrival is hidden  --
===========  ======================================================  ==============

When an answer is acted on is decided by :class:`scheduling.elastic.Elastic`.
"""

from scheduling.scalers.ds2 import DS2
from scheduling.scalers.load import Load, Scaler
from scheduling.scalers.median import Median
from scheduling.scalers.oera import OERA
from scheduling.scalers.probe import Probe
from scheduling.scalers.static import Static

__all__ = ["DS2", "OERA", "Load", "Median", "Probe", "Scaler", "Static"]
