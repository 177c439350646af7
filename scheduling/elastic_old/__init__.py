"""Scalers, which choose the parallelism of an operator: Static, Median, OERA, LiteralOERA, DS2."""

from scheduling.elastic_old.ds2 import DS2
from scheduling.elastic_old.median import Median
from scheduling.elastic_old.oera import OERA, LiteralOERA
from scheduling.elastic_old.static import Static

__all__ = ["DS2", "OERA", "LiteralOERA", "Median", "Static"]
