"""Scalers, which choose the parallelism of an operator: Static, Median, OERA, LiteralOERA, DS2."""

from scheduling.elastic.ds2 import DS2
from scheduling.elastic.median import Median
from scheduling.elastic.oera import OERA, LiteralOERA
from scheduling.elastic.static import Static

__all__ = ["DS2", "OERA", "LiteralOERA", "Median", "Static"]
