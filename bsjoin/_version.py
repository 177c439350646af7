"""The version of the package, the same in the driver and in every worker."""

__version__ = "0.1.0"
