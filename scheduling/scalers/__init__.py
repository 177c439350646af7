"""Scalers: the cores that a load needs. :class:`scheduling.elastic.Elastic` acts on the answers."""

from scheduling.scalers.base import Load, Probe, Scaler, Static
from scheduling.scalers.ds2 import DS2
from scheduling.scalers.oera import OERA

__all__ = ["DS2", "OERA", "Load", "Probe", "Scaler", "Static"]
