"""The warning that a join does not follow its table, where Spark's own join would."""

from __future__ import annotations

import sys
import warnings

from pyspark.sql import DataFrame

from bsjoin._secrets import scrubbed
from bsjoin.errors import NotFollowedWarning
from bsjoin.options import Full
from bsjoin.spark.fingerprint import read_anew


def warn_unless_followed(table: DataFrame | str, options: Full) -> None:
    """Warn of a table that a stream's join reads once, and Spark's own in each micro-batch.

    Not of a source, given by its token, which Spark's own join does not read; and whoever names its
    state, or has it refreshed, needs no warning.
    """
    if isinstance(table, str) or options.refresh is not None or options.fingerprint is not None:
        return
    found = read_anew(table)
    if found:
        message = (
            f"the table of this join reads {' and '.join(found)}, now and not again, while "
            "Spark's own join would do so in each micro-batch. Give "
            "cache=bsjoin.Full(refresh='10 minutes'), "
            "or join with a bsjoin.BatchTable and call its refresh(df) when the table has changed. "
            "If the rows of now are wanted, ignore bsjoin.errors.NotFollowedWarning"
        )
        warnings.warn(scrubbed(message, ()), NotFollowedWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The number of frames from the caller of this function up to the code that called bsjoin."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "bsjoin":
        level, frame = level + 1, frame.f_back
    return level
