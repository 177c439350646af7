"""Whether this process is a client of Spark Connect; it cannot have a classic session as well."""

from __future__ import annotations

from pyspark.sql import is_remote

__all__ = ["is_remote"]
